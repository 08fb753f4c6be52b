// The peer's half of the benches: the same work as `bench/src/ours.rs`, on workerd.
import { DurableObject } from "cloudflare:workers";

export class Counter extends DurableObject {
  // The HTTP counter: storage read-modify-write and reply.
  fetch(_request) {
    return new Response(String(this.increment()));
  }

  increment() {
    const next = (this.ctx.storage.kv.get("count") ?? 0) + 1;
    this.ctx.storage.kv.put("count", next);
    return next;
  }

  ping(value) {
    return value;
  }

  // A schema and a few rows, for the memory bench.
  touch() {
    const sql = this.ctx.storage.sql;
    sql.exec("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, k INTEGER NOT NULL, v TEXT NOT NULL)");
    sql.exec("CREATE INDEX IF NOT EXISTS items_k ON items (k)");
    for (let i = 0; i < 5; i++) sql.exec("INSERT INTO items (k, v) VALUES (?, ?)", i, "some text of a row");
    return sql.exec("SELECT count(*) AS n FROM items").one().n;
  }
}

// A room of WebSockets: "all …" goes to all, anything else comes back.
export class Room extends DurableObject {
  fetch(_request) {
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server, ["member"]);
    server.serializeAttachment(["member", 1]);
    return new Response(null, { status: 101, webSocket: client });
  }

  webSocketMessage(ws, message) {
    if (!message.startsWith("all ")) return ws.send(message);
    const text = message.slice(4);
    for (const member of this.ctx.getWebSockets()) member.send(text);
  }

  webSocketClose(ws, code, reason) {
    ws.close(1000, reason);
  }
}

// A bank: one object, in which all accounts are.
export class Bank extends DurableObject {
  open(accounts) {
    const sql = this.ctx.storage.sql;
    sql.exec("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)");
    sql.exec(
      "WITH RECURSIVE ids (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM ids WHERE id + 1 < ?) INSERT INTO accounts (id, balance) SELECT id, 10000000 FROM ids",
      accounts,
    );
  }

  // FROM/TO/AMOUNT
  transfer(text) {
    const sql = this.ctx.storage.sql;
    const [from, to, amount] = text.split("/").map(Number);
    const paying = sql.exec("SELECT balance FROM accounts WHERE id = ?", from).one().balance;
    const paid = sql.exec("SELECT balance FROM accounts WHERE id = ?", to).one().balance;
    if (paying < amount) throw new Error(`account ${from} has only ${paying}`);
    sql.exec("UPDATE accounts SET balance = ? WHERE id = ?", paying - amount, from);
    sql.exec("UPDATE accounts SET balance = ? WHERE id = ?", paid + amount, to);
  }

  fetch(request) {
    if (request.headers.get("Upgrade") === "websocket") {
      const [client, server] = Object.values(new WebSocketPair());
      this.ctx.acceptWebSocket(server);
      return new Response(null, { status: 101, webSocket: client });
    }
    this.transfer(new URL(request.url).pathname.slice("/bank/bank/".length));
    return new Response("ok");
  }

  webSocketMessage(ws, message) {
    this.transfer(message);
    ws.send("ok");
  }

  webSocketClose(ws, code, reason) {
    ws.close(1000, reason);
  }
}

export default {
  async fetch(request, env) {
    const path = new URL(request.url).pathname;
    if (path.startsWith("/room/")) return env.ROOM.get(env.ROOM.idFromName(path.slice(6))).fetch(request);
    if (path.startsWith("/bank/")) {
      const bank = env.BANK.get(env.BANK.idFromName("bank"));
      if (!path.startsWith("/bank/open/")) return bank.fetch(request);
      await bank.open(Number(path.slice("/bank/open/".length)));
      return new Response("open");
    }
    const object = (name) => env.COUNTER.get(env.COUNTER.idFromName(name));
    if (path.startsWith("/count/")) return object(path.slice(7)).fetch(request);
    if (path.startsWith("/touch/")) return new Response(String(await object(path.slice(7)).touch()));
    // /rpc/{read|write}/{calls}: that many RPC round trips, one after the other, timed by the caller.
    const [, , kind, calls] = path.split("/");
    const stub = object("rpc");
    let last = 0;
    for (let i = 0; i < Number(calls); i++) last = kind === "write" ? await stub.increment() : await stub.ping(i);
    return new Response(String(last));
  },
};
