//! An object whose constructor does what notes say: it may fail, abort, write, and close the gate.

use std::time::Duration;

use abide::{prelude::*, socket::Endpoint};

use crate::{
    support::{Signals, World, signals},
    websockets::room::{client_of, request},
};

#[durable_object]
pub(crate) struct Gated {
    ctx: Ctx,
    signals: Signals,
}

impl Gated {
    fn is_told(signals: &Signals, what: &str) -> bool {
        signals.notes().iter().any(|note| note == what)
    }
}

impl DurableObject for Gated {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = signals(&env);
        signals.note("new");
        if Self::is_told(&signals, "refuse") && !Self::is_told(&signals, "take") {
            return Err(Error::new("not now"));
        }
        if Self::is_told(&signals, "gate") {
            let fail = Self::is_told(&signals, "fail") && !Self::is_told(&signals, "succeed");
            drop(ctx.block_concurrency_while(async move {
                tokio::task::yield_now().await;
                if fail {
                    return Err(Error::new("a service that it needs is down"));
                }
                Ok(())
            }));
        }
        if Self::is_told(&signals, "write") {
            ctx.storage().put("cache", &vec![7_u8; 100_000])?;
        }
        if Self::is_told(&signals, "abort") {
            ctx.abort("on purpose");
        }
        Ok(Self { ctx, signals })
    }

    async fn fetch(&self, _: Request) -> Result<Response> {
        let (_, response) = self.ctx.accept_websocket(&[])?;
        Ok(response)
    }

    async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        match message.as_text().unwrap() {
            "put" => self.ctx.storage().put("key", &1),
            "many" => {
                let message = Message::from("x".repeat(1 << 20));
                for _ in 0..300 {
                    if let Err(error) = ws.send(&message) {
                        assert!(error.overloaded());
                        self.signals.note("refused as overloaded");
                        break;
                    }
                }
                Ok(())
            }
            text => ws.send(text),
        }
    }

    async fn websocket_close(&self, _: WebSocket, _: Close) -> Result<()> {
        self.signals.note("closed");
        Ok(())
    }
}

#[rpc]
impl Gated {
    pub(crate) async fn sockets(&self) -> usize {
        self.ctx.websockets().len()
    }

    /// Fills the disk a little.
    pub(crate) async fn fill(&self, number: u32) -> Result<()> {
        let key = number.to_string();
        self.ctx.storage().put(&key, &vec![7_u8; 100_000])
    }
}

pub(crate) fn world() -> World {
    World::new(|node| node.class::<Gated>(ClassOptions::default()))
}

pub(crate) fn object(world: &World) -> Stub<Gated> {
    world.env().object::<Gated>().get_by_name("gated")
}

pub(crate) async fn open(world: &World) -> Endpoint {
    let response = object(world).fetch(request("/")).await.unwrap();
    client_of(response).claim().unwrap()
}

/// Lets the object leave memory.
pub(crate) async fn sleep(world: &World) {
    world.fence().await;
    world.clock.advance(Duration::from_secs(11));
    world.until(|node| node.stats().evicted == 1).await;
}

/// How often something was noted.
pub(crate) fn count(world: &World, wanted: &str) -> usize {
    let notes = world.signals.notes();
    notes.iter().filter(|note| *note == wanted).count()
}
