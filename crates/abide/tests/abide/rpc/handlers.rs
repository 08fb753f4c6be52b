//! Handlers that are not `async`: each is one transaction.

use std::time::Duration;

use abide::{
    ErrorKind, NodeBuilder, handed_over,
    limits::MAX_RPC_BYTES,
    prelude::*,
    socket::{ClientSocket, Frame},
};

use http_body_util::BodyExt;

use crate::support::{World, run};

/// Counts what reaches it, and refuses a text that contains "no" after counting it.
#[durable_object]
struct Counter {
    ctx: Ctx,
}

impl Counter {
    fn count(&self, text: &str) -> Result<u32> {
        let count = self.total()? + 1;
        self.ctx.storage().put("total", &count)?;
        if text.contains("no") {
            return Err(Error::new("it says no"));
        }
        Ok(count)
    }
}

#[durable_object]
impl DurableObject for Counter {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    fn fetch(&self, request: Request) -> Result<Response> {
        if request.uri().path() == "/socket" {
            let (_, response) = self.ctx.accept_websocket(&[])?;
            return Ok(response);
        }
        if request.uri().path() == "/keep" {
            let mut response = Response::new(Body::empty());
            *response.extensions_mut() = request.into_parts().0.extensions;
            return Ok(response);
        }
        if request.uri().path() == "/value" {
            let (name, age): (String, u32) = handed_over(&request)?;
            return Ok(Response::new(Body::from(format!("{name} is {age}"))));
        }
        let count = self.count(request.uri().path())?;
        assert!(!request.uri().path().contains("panic"), "on purpose");
        Ok(Response::new(Body::from(count.to_string())))
    }

    fn alarm(&self, info: AlarmInfo) -> Result<()> {
        self.ctx.storage().put("tried", &(info.retry_count + 1))?;
        self.count(if info.retry_count == 0 { "no" } else { "yes" })?;
        Ok(())
    }

    fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        let text = message.as_text().unwrap_or_default();
        if text == "total" {
            return ws.send(self.total()?.to_string());
        }
        self.count(text)?;
        Ok(())
    }

    fn websocket_close(&self, _ws: WebSocket, close: Close) -> Result<()> {
        self.count(&close.reason)?;
        Ok(())
    }
}

#[rpc]
impl Counter {
    pub fn total(&self) -> Result<u32> {
        Ok(self.ctx.storage().get("total")?.unwrap_or(0))
    }

    pub fn tried(&self) -> Result<u32> {
        Ok(self.ctx.storage().get("tried")?.unwrap_or(0))
    }

    pub fn set_alarm(&self) -> Result<()> {
        self.ctx.storage().set_alarm(self.ctx.now())
    }
}

fn world() -> World {
    World::new(|node: NodeBuilder| node.class::<Counter>(ClassOptions::default()))
}

fn counter(world: &World) -> Stub<Counter> {
    world.env().object::<Counter>().get_by_name("a")
}

fn get(path: &str) -> Request {
    Request::get(path).body(Body::empty()).unwrap()
}

#[test]
fn an_error_or_panic_of_fetch_undoes_what_it_wrote() {
    run(async {
        let world = world();
        let counter = counter(&world);
        assert!(counter.fetch(get("/yes")).await.is_ok());
        let refused = counter.fetch(get("/no")).await.unwrap_err();
        assert_eq!(refused.message(), "it says no");
        assert_eq!(counter.total().await.unwrap(), 1);
        assert!(counter.fetch(get("/panic")).await.is_err());
        assert_eq!(counter.total().await.unwrap(), 1);
    });
}

#[test]
fn an_error_of_an_alarm_undoes_what_it_wrote_and_the_alarm_is_retried() {
    run(async {
        let world = world();
        let counter = counter(&world);
        counter.set_alarm().await.unwrap();
        world.fence().await;
        assert_eq!(counter.total().await.unwrap(), 0);
        assert_eq!(counter.tried().await.unwrap(), 0);
        while counter.total().await.unwrap() == 0 {
            world.clock.advance(Duration::from_secs(1));
            world.fence().await;
        }
        assert_eq!(counter.total().await.unwrap(), 1);
        assert_eq!(counter.tried().await.unwrap(), 2);
    });
}

#[test]
fn an_error_of_a_socket_handler_undoes_what_it_wrote() {
    run(async {
        let world = world();
        let counter = counter(&world);
        let mut response = counter.fetch(get("/socket")).await.unwrap();
        let mut socket = response
            .extensions_mut()
            .remove::<ClientSocket>()
            .unwrap()
            .claim()
            .unwrap();
        for text in ["yes", "no", "yes", "total"] {
            socket.deliver(text).await.unwrap();
        }
        let Frame::Message(total) = socket.next_frame().await else {
            panic!("no answer");
        };
        assert_eq!(total.as_text(), Some("2"));
        drop(socket);
        while counter.total().await.unwrap() < 3 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_value_is_handed_over_with_a_request() {
    run(async {
        let world = world();
        let counter = counter(&world);
        let response = counter.upgrade(get("/value"), &("ada", 36)).await.unwrap();
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "ada is 36");
        let none = counter.fetch(get("/value")).await.unwrap_err();
        assert!(none.message().contains("without a value"), "{none}");
        let other = counter.upgrade(get("/value"), &36).await.unwrap_err();
        assert_eq!(other.kind(), ErrorKind::Decode);
        let mut request = get("/value");
        let kept = counter.upgrade(get("/keep"), &("ada", 36)).await.unwrap();
        *request.extensions_mut() = kept.into_parts().0.extensions;
        let forwarded = counter.fetch(request).await.unwrap_err();
        assert!(
            forwarded.message().contains("without a value"),
            "{forwarded}"
        );
        let large = "x".repeat(MAX_RPC_BYTES + 1);
        let refused = counter.upgrade(get("/value"), &large).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Limit);
    });
}

#[test]
fn a_new_object_whose_first_handler_fails_is_not_stored() {
    run(async {
        let world = world();
        let counters = world.env().object::<Counter>();
        assert!(counter(&world).fetch(get("/no")).await.is_err());
        assert!(counters.get_existing("a").unwrap().is_none());
        counter(&world).fetch(get("/yes")).await.unwrap();
        let world = World::on(world.stop().await, 1, |node| {
            node.class::<Counter>(ClassOptions::default())
        });
        let page = world
            .env()
            .object::<Counter>()
            .list(None, 10)
            .await
            .unwrap();
        assert_eq!(page.objects[0].name(), Some("a"));
        assert_eq!(counter(&world).total().await.unwrap(), 1);
    });
}
