// The page of a document: CodeMirror, bound to a Yjs text, over the public providers.
import { defaultKeymap, indentWithTab } from "@codemirror/commands";
import { HighlightStyle, Language, defineLanguageFacet, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, keymap, placeholder } from "@codemirror/view";
import PartySocket from "partysocket";
import { yCollab, yUndoManagerKeymap } from "y-codemirror.next";
import YProvider from "y-partyserver/provider";
import { tags } from "@lezer/highlight";
import { parser } from "@lezer/markdown";
import * as Y from "yjs";

// Markdown alone: @codemirror/lang-markdown brings HTML, CSS and JavaScript along.
const markdown = new Language(defineLanguageFacet(), parser, [], "markdown");

const find = (selector) => document.querySelector(selector);
const COLORS = ["#f6b26b", "#93c47d", "#76a5ff", "#ea9999", "#c9a0ff", "#6fd0d6", "#e6c84f", "#ff9ec7"];
const ANIMALS = ["Otter", "Heron", "Lynx", "Finch", "Badger", "Newt", "Wren", "Hare", "Seal", "Moth"];
const one = (list) => list[Math.floor(Math.random() * list.length)];

const app = find(".app");
if (app) open(app.dataset.document);
else {
  find("#open").addEventListener("submit", (event) => {
    event.preventDefault();
    location.href = `/d/${encodeURIComponent(find("#name").value.trim())}`;
  });
}

function open(name) {
  const room = encodeURIComponent(name);
  const doc = new Y.Doc();
  const text = doc.getText("codemirror");
  // Tabs of one browser could talk to one another past the server: here what is seen went through it.
  const provider = new YProvider(location.host, room, doc, {
    protocol: location.protocol === "https:" ? "wss" : "ws",
    disableBc: true,
  });

  const me = find("#me");
  const user = JSON.parse(sessionStorage.getItem("user") ?? "null") ?? { name: one(ANIMALS), color: one(COLORS) };
  const announce = () => {
    user.colorLight = `${user.color}55`;
    sessionStorage.setItem("user", JSON.stringify(user));
    provider.awareness.setLocalStateField("user", { ...user });
  };
  me.value = user.name;
  me.addEventListener("input", () => {
    user.name = me.value.trim() || "Guest";
    announce();
  });
  announce();

  const undo = new Y.UndoManager(text);
  const view = new EditorView({
    parent: find("#editor"),
    state: EditorState.create({
      doc: text.toString(),
      extensions: [
        keymap.of([...yUndoManagerKeymap, ...defaultKeymap, indentWithTab]),
        drawSelection(),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": "Text of the document", tabindex: "0" }),
        placeholder("Write here. Markdown is formatted as you type."),
        markdown,
        syntaxHighlighting(HighlightStyle.define([
          { tag: tags.heading1, fontSize: "1.6em", fontWeight: "700" },
          { tag: tags.heading2, fontSize: "1.3em", fontWeight: "700" },
          { tag: tags.heading, fontWeight: "700" },
          { tag: tags.strong, fontWeight: "700" },
          { tag: tags.emphasis, fontStyle: "italic" },
          { tag: tags.monospace, fontFamily: "ui-monospace, monospace" },
          { tag: [tags.link, tags.url], color: "var(--accent)" },
          { tag: tags.quote, color: "var(--quiet)" },
        ])),
        yCollab(text, provider.awareness, { undoManager: undo }),
      ],
    }),
  });

  people(provider);
  saving(provider, doc);
  const talk = chat(room, user);
  // For tests, and for people who look behind the page.
  window.rooms = { doc, text, provider, view, talk };
}

// Who is here, each with their colour.
function people(provider) {
  const list = find("#people");
  const show = () => {
    const states = [...provider.awareness.getStates()].sort(([a], [b]) => a - b);
    list.replaceChildren(...states.flatMap(([client, { user }]) => {
      if (!user) return [];
      const item = document.createElement("li");
      item.textContent = user.name + (client === provider.awareness.clientID ? " (you)" : "");
      item.style.background = user.color;
      return [item];
    }));
  };
  provider.awareness.on("change", show);
  show();
}

// Whether what was written here is on disk: a mark, sent behind a change, comes back when the change is.
function saving(provider, doc) {
  const line = find("#line");
  let changes = 0;
  let saved = 0;
  let asked = null;
  const show = (state, text) => {
    line.dataset.state = state;
    line.textContent = text;
  };
  const ask = () => {
    asked = null;
    if (provider.wsconnected && provider.synced) provider.sendMessage(JSON.stringify({ saved: changes }));
  };
  const told = () => {
    if (line.dataset.state === "refused") return;
    if (!provider.wsconnected) show("offline", changes > saved ? "Offline – your changes are kept in this window" : "Offline – you can keep writing");
    else if (!provider.synced) show("connecting", "Connecting…");
    else if (changes > saved) show("saving", "Saving…");
    else show("saved", "Saved");
  };
  doc.on("update", (_, origin) => {
    if (origin === provider) return;
    changes += 1;
    asked ??= setTimeout(ask, 50);
    told();
  });
  provider.on("custom-message", (message) => {
    const mark = JSON.parse(message).saved;
    if (typeof mark === "number") saved = Math.max(saved, mark);
    told();
    size(provider.roomname);
  });
  provider.on("sync", (synced) => {
    // What was written offline has been sent before this.
    if (synced) setTimeout(ask, 50);
    told();
  });
  provider.on("status", told);
  provider.on("connection-close", (event) => {
    // What the server will refuse again is not repeated.
    if ([1003, 1007, 1009, 4413].includes(event?.code)) {
      provider.shouldConnect = false;
      show("refused", "Not saved");
      const refused = find("#refused");
      refused.hidden = false;
      refused.textContent = `The server refused a change: ${event.reason}. Copy what you need and reload the page.`;
    }
  });
  provider.on("connection-error", async () => {
    const state = await status(provider.roomname);
    if (state && state.connections >= state.max_connections) show("full", `The document is full: ${state.connections} are here`);
  });
  addEventListener("beforeunload", (event) => {
    if (changes > saved) event.preventDefault();
  });
  told();
}

async function status(room) {
  try {
    const answer = await fetch(`/parties/main/${room}`);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

let sizing = null;
function size(room) {
  sizing ??= setTimeout(async () => {
    sizing = null;
    const state = await status(room);
    if (state) find("#size").textContent = `${((state.snapshot_bytes + state.update_bytes) / 1024).toFixed(1)} KiB stored`;
  }, 1000);
}

// The chat beside the document, a channel over partysocket: messages are relayed and not stored.
function chat(room, user) {
  const socket = new PartySocket({ host: location.host, party: "channel", room, protocol: location.protocol === "https:" ? "wss" : "ws" });
  const list = find("#talk");
  const add = ({ name, color, text }) => {
    const item = document.createElement("li");
    const who = document.createElement("b");
    who.textContent = String(name).slice(0, 30);
    who.style.color = `color-mix(in srgb, ${/^#[0-9a-f]{6}$/.test(color) ? color : "gray"} 35%, var(--ink))`;
    item.append(who, String(text).slice(0, 500));
    list.append(item);
    while (list.children.length > 200) list.firstElementChild.remove();
    item.scrollIntoView({ block: "nearest" });
  };
  socket.addEventListener("message", (event) => {
    try {
      add(JSON.parse(event.data));
    } catch {
      add({ name: "Channel", text: event.data });
    }
  });
  find("#say").addEventListener("submit", (event) => {
    event.preventDefault();
    const input = event.target.elements.text;
    if (!input.value.trim()) return;
    const said = { name: user.name, color: user.color, text: input.value.trim() };
    // While the connection is away, partysocket keeps it and sends it later.
    socket.send(JSON.stringify(said));
    add(said);
    input.value = "";
  });
  return socket;
}
