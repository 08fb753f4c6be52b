// A process of Node with the public clients, unmodified: it does what it reads, and tells what it sees.
import { createInterface } from "node:readline";
import PartySocket from "partysocket";
import WebSocket from "ws";
import YProvider from "y-partyserver/provider";
import { WebsocketProvider } from "y-websocket";
import * as Y from "yjs";

const host = process.argv[2];
const tell = (kind, value) => console.log(JSON.stringify([kind, value]));

const socket = new PartySocket({
  host, party: "channel", room: "node", id: "from-node", query: { tag: "blue" }, WebSocket,
  minReconnectionDelay: 100, maxReconnectionDelay: 200,
});
// Sent before there is a connection: it is kept until then.
socket.send("buffered");
socket.addEventListener("open", () => tell("open", socket.id));
socket.addEventListener("close", () => tell("close", ""));
socket.addEventListener("message", (event) => tell("message", event.data));

const providers = {
  partyserver: (doc) => new YProvider(host, "node", doc, { WebSocketPolyfill: WebSocket, disableBc: true }),
  websocket: (doc) => new WebsocketProvider(`ws://${host}/parties/main`, "node", doc, { WebSocketPolyfill: WebSocket, disableBc: true }),
};
const docs = {};
for (const [name, make] of Object.entries(providers)) {
  const doc = new Y.Doc();
  const provider = make(doc);
  docs[name] = doc;
  provider.awareness.setLocalStateField("user", { name });
  provider.on("sync", (synced) => synced && tell(`${name} synced`, ""));
  provider.awareness.on("change", () => {
    const names = [...provider.awareness.getStates().values()].map((state) => state.user?.name);
    tell(`${name} sees`, names.sort().join(" "));
  });
  doc.getText("codemirror").observe((event) => tell(`${name} text`, event.target.toString()));
}

for await (const line of createInterface({ input: process.stdin })) {
  const [what, value] = JSON.parse(line);
  if (what === "send") socket.send(value);
  else if (what === "fetch") {
    const answer = await PartySocket.fetch({ host, party: "channel", room: "node" }, { method: "POST", body: value });
    tell("fetched", await answer.text());
  } else docs[what].getText("codemirror").insert(0, value);
}
process.exit(0);
