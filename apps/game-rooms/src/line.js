// What both pages have: values that outlast a reload, and a WebSocket that comes back.

// A browser may keep nothing for a page; then the values last as long as the page.
const remembered = (area) => {
  const here = new Map();
  return {
    get: (key) => { try { return globalThis[area].getItem(key); } catch { return here.get(key) ?? null; } },
    set: (key, value) => { try { globalThis[area].setItem(key, value); } catch { here.set(key, value); } },
    forget: (key) => { try { globalThis[area].removeItem(key); } catch { here.delete(key); } },
  };
};

const newSecret = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

// Codes with which the room sends a client away: full, wrong secret, replaced, ended. It then does not try again.
const FULL = 4000, WRONG_SECRET = 4001, REPLACED = 4002, ENDED = 4004;
const PING_EVERY = 4000, SILENT_FOR = 10000, FIRST_WAIT = 400, LONGEST_WAIT = 8000;

class Line {
  constructor(id, role, secret, on) {
    Object.assign(this, { id, role, secret, on, failures: 0, socket: null, waiting: null });
    this.looking = setInterval(() => this.look(), PING_EVERY);
    this.hurry = () => { if (this.waiting !== null && document.visibilityState === "visible") this.open(); };
    // A connection that was made before the network went is worth nothing.
    this.renew = () => this.drop();
    // A browser may keep a page that was left, with its connection, to show it again.
    this.leave = () => this.socket.close(1000);
    addEventListener("pagehide", this.leave);
    addEventListener("pageshow", this.hurry);
    addEventListener("online", this.renew);
    document.addEventListener("visibilitychange", this.hurry);
    this.open();
  }
  open() {
    clearTimeout(this.waiting);
    this.waiting = null;
    this.heardAt = performance.now();
    const address = `${location.origin.replace("http", "ws")}/sockets/${this.id}?role=${this.role}`;
    const socket = this.socket = new WebSocket(address, ["blips", `secret.${this.secret}`]);
    socket.onmessage = ({ data }) => {
      this.heardAt = performance.now();
      this.failures = 0;
      if (data !== "pong") this.on.heard(data);
    };
    socket.onclose = ({ code, reason }) => this.lost(code, reason);
  }
  get isOpen() { return this.socket?.readyState === WebSocket.OPEN; }
  get backlog() { return this.socket?.bufferedAmount ?? 0; }
  send(message) { if (this.isOpen) this.socket.send(message); }
  // A network can vanish without a word: then no answer comes to a ping.
  look() {
    if (this.waiting !== null) return;
    if (performance.now() - this.heardAt > SILENT_FOR) this.drop();
    else this.send("ping");
  }
  drop() {
    if (this.waiting !== null) return this.open();
    this.socket.onclose = this.socket.onmessage = null;
    this.socket.close();
    this.lost(1006, "");
  }
  lost(code, reason) {
    if ([FULL, WRONG_SECRET, REPLACED, ENDED].includes(code)) {
      this.stop();
      return this.on.ended(code, reason);
    }
    this.on.lost();
    // Clients of a server that was restarted do not come back all at once.
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.failures++) * (0.5 + Math.random() / 2);
    this.waiting = setTimeout(() => this.open(), wait);
  }
  stop() {
    clearInterval(this.looking);
    clearTimeout(this.waiting);
    removeEventListener("pagehide", this.leave);
    removeEventListener("pageshow", this.hurry);
    removeEventListener("online", this.renew);
    document.removeEventListener("visibilitychange", this.hurry);
    this.socket.onclose = this.socket.onmessage = null;
    this.socket.close();
  }
}
