// Chat rooms: each room is an object that holds its visitors' WebSockets and stores what they write.
//
// `cargo run --example chat`, then open the address that it prints in two windows.

use abide::{Host, prelude::*, server::object_router};
use axum::{Router, response::Html, routing::get};

const PAGE: &str = r#"<!doctype html><title>Chat</title><ul id="lines"></ul><input id="line" autofocus>
<script>
const socket = new WebSocket(`ws://${location.host}/rooms/lobby`);
socket.onmessage = message => lines.appendChild(document.createElement("li")).textContent = message.data;
line.onchange = () => { socket.send(line.value); line.value = ""; };
</script>"#;

#[durable_object]
pub struct Room {
    ctx: Ctx,
}

#[durable_object]
impl DurableObject for Room {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let create =
            "CREATE TABLE IF NOT EXISTS lines (id INTEGER PRIMARY KEY, text TEXT NOT NULL)";
        ctx.sql().exec(create, ())?;
        Ok(Self { ctx })
    }

    /// A visitor comes: they get the last lines, and then what others write.
    fn fetch(&self, _request: Request) -> Result<Response> {
        let (visitor, response) = self.ctx.accept_websocket(&[])?;
        let last = "SELECT text FROM (SELECT * FROM lines ORDER BY id DESC LIMIT 20) ORDER BY id";
        for line in self.ctx.sql().exec(last, ())?.all::<String>()? {
            visitor.send(line)?;
        }
        Ok(response)
    }

    /// Also called if the object has left memory since: the sockets stay open, and `new` has run again.
    fn websocket_message(&self, _from: WebSocket, message: Message) -> Result<()> {
        let Some(text) = message.as_text() else {
            return Ok(());
        };
        let insert = "INSERT INTO lines (text) VALUES (?1)";
        self.ctx.sql().exec(insert, (text,))?;
        // Visitors receive the line when it is on disk.
        self.ctx.broadcast(message)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let host = Host::open_in_memory()
        .object::<Room>()
        .router(|env| {
            Router::new()
                .route("/", get(async || Html(PAGE)))
                .nest("/rooms", object_router::<Room>(&env)) // to the room's `fetch`
        })
        .start()
        .await?;
    println!("open http://{}/", host.addr());
    tokio::signal::ctrl_c().await?;
    host.shutdown().await?;
    Ok(())
}
