//! The object: one room's history and its members.
//!
//! Contract: a message that any member has seen is on disk, and is shown to all in the order of its id. A message
//! that arrives twice (its author missed the confirmation of the first and sent it again) is stored once. Presence is
//! derived from the open sockets alone. The object keeps nothing in memory, so it may be evicted between any two
//! messages.

use abide::{handed_over, prelude::*};
use serde::{Deserialize, Serialize};

use crate::{Entry, FromClient, Invalid, RateLimiter, ToClient, Verdict};

/// Maximum number of messages shown to a new visitor.
const SHOWN: i64 = 100;

/// Maximum number of messages kept by a room: older ones are deleted.
const KEPT: i64 = 100_000;

/// One room.
#[durable_object]
pub struct ChatRoom {
    ctx: Ctx,
    env: Env,
}

/// The data of a visitor who wants to enter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Visitor {
    pub(crate) name: String,
    /// The address that they write from.
    pub(crate) address: String,
    /// The newest message that they know.
    pub(crate) since: i64,
}

#[durable_object]
impl DurableObject for ChatRoom {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        ctx.sql().exec(
            "CREATE TABLE IF NOT EXISTS messages (
                 id   INTEGER PRIMARY KEY,
                 name TEXT NOT NULL,
                 text TEXT NOT NULL,
                 at   INTEGER NOT NULL,
                 mark TEXT NOT NULL,
                 UNIQUE (name, mark)
             )",
            (),
        )?;
        // Pages ping to check the connection; that must not wake the object.
        ctx.set_auto_response(Some(RequestResponsePair::new("ping", "pong")?))?;
        Ok(Self { ctx, env })
    }

    /// Admits a member.
    fn fetch(&self, request: Request) -> Result<Response> {
        let visitor: Visitor = handed_over(&request)?;
        let (socket, response) = self.ctx.accept_websocket(&[])?;
        socket.set_attachment(&visitor)?;
        let present = self.present()?;
        let welcome = ToClient::Welcome {
            history: self.newest(visitor.since)?,
            present: present.clone(),
        };
        socket.send_json(&welcome)?;
        self.tell_all(&ToClient::Present { present }, Some(&socket))?;
        Ok(response)
    }

    async fn websocket_message(&self, socket: WebSocket, message: Message) -> Result<()> {
        let said = match &message {
            Message::Text(text) => FromClient::parse(text),
            Message::Binary(_) => Err(Invalid::Form("these are bytes".to_owned())),
        };
        let refuse = |mark: Option<String>, why: Invalid| {
            let why = why.to_string();
            socket.send_json(&ToClient::Refused { mark, why })
        };
        let said = match said {
            Ok(said) => said,
            Err(why) => return refuse(None, why),
        };
        let checked = said.check();
        let FromClient::Say { text, mark } = said;
        if let Err(why) = checked {
            return refuse(Some(mark), why);
        }
        let visitor: Visitor = socket.attachment()?.ok_or("a socket without its visitor")?;
        let limiter = self.env.object::<RateLimiter>();
        if let Verdict::Wait(wait) = limiter.get_by_name(&visitor.address).take().await? {
            return socket.send_json(&ToClient::SlowDown { mark, wait });
        }
        match self.store(&visitor.name, &text, &mark)? {
            Stored::New(entry) => self.tell_all(&ToClient::Said(entry), None),
            // The others have seen it; the author missed it.
            Stored::Before(entry) => socket.send_json(&ToClient::Said(entry)),
        }
    }

    fn websocket_close(&self, _socket: WebSocket, _: Close) -> Result<()> {
        let present = self.present()?;
        self.tell_all(&ToClient::Present { present }, None)
    }
}

#[rpc]
impl ChatRoom {
    /// Messages before the one with this id, oldest first, `limit` of them at most.
    pub async fn history(&self, before: i64, limit: i64) -> Result<Vec<Entry>> {
        let sql = self.ctx.sql();
        sql.exec(
            "SELECT * FROM (SELECT id, name, text, at, mark FROM messages WHERE id < ? ORDER BY id DESC LIMIT ?)
             ORDER BY id",
            (before, limit.clamp(0, SHOWN)),
        )?
        .all()
    }
}

/// The result of storing a message.
enum Stored {
    New(Entry),
    Before(Entry),
}

impl ChatRoom {
    fn store(&self, name: &str, text: &str, mark: &str) -> Result<Stored> {
        let sql = self.ctx.sql();
        let at = self.env.now().unix_millis();
        let new: Option<Entry> = sql
            .exec(
                "INSERT INTO messages (name, text, at, mark) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING
                 RETURNING id, name, text, at, mark",
                (name, text, at, mark),
            )?
            .optional()?;
        if let Some(entry) = new {
            sql.exec("DELETE FROM messages WHERE id <= ?", (entry.id - KEPT,))?;
            return Ok(Stored::New(entry));
        }
        let before = "SELECT id, name, text, at, mark FROM messages WHERE name = ? AND mark = ?";
        sql.exec(before, (name, mark))?.one().map(Stored::Before)
    }

    /// The newest messages after a known one, oldest first.
    fn newest(&self, since: i64) -> Result<Vec<Entry>> {
        let sql = self.ctx.sql();
        sql.exec(
            "SELECT * FROM (SELECT id, name, text, at, mark FROM messages WHERE id > ? ORDER BY id DESC LIMIT ?)
             ORDER BY id",
            (since, SHOWN),
        )?
        .all()
    }

    /// Who is here, each name once.
    fn present(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for socket in self.ctx.websockets() {
            if let Some(Visitor { name, .. }) = socket.attachment()?
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn tell_all(&self, what: &ToClient, but: Option<&WebSocket>) -> Result<()> {
        let all = self.ctx.audience();
        let audience = match but {
            Some(socket) => all.except(socket),
            None => all,
        };
        audience.send_json(what)
    }
}
