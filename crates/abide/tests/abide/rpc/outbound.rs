//! Requests of objects to other servers.

use std::sync::{Arc, Mutex};

use abide::{ErrorKind, Fetching, NodeBuilder, Outbound, prelude::*};
use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};

use crate::support::{Signals, World, run, signals};

/// A client whose world answers each request with its path.
#[derive(Clone, Default)]
struct Echo(Arc<Mutex<Vec<Request>>>);

impl Echo {
    fn paths(&self) -> Vec<String> {
        let sent = self.0.lock().unwrap();
        sent.iter()
            .map(|request| request.uri().path().to_owned())
            .collect()
    }

    fn take(&self) -> Request {
        self.0.lock().unwrap().remove(0)
    }
}

impl Outbound for Echo {
    fn fetch(&self, request: Request) -> Fetching {
        let response = Response::new(Body::from(request.uri().path().to_owned()));
        self.0.lock().unwrap().push(request);
        Box::pin(std::future::ready(Ok(response)))
    }
}

#[durable_object]
struct Sender {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Sender {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
        })
    }
}

fn get(path: &str) -> Request {
    let uri = format!("http://upstream.test{path}");
    Request::builder().uri(uri).body(Body::empty()).unwrap()
}

#[rpc]
impl Sender {
    pub async fn write_and_send(&self) -> Result<String> {
        self.ctx.storage().put("sent", &true)?;
        let response = self.ctx.env().fetch(get("/written")).await?;
        let body = response.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Sends many requests, some after a write, and waits for none.
    pub async fn send_many(&self, count: u32) -> Result<()> {
        for number in 0..count {
            if number % 3 == 0 {
                self.ctx.storage().put("number", &number)?;
            }
            drop(self.ctx.env().fetch(get(&format!("/{number}"))));
            if number % 4 == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Sends a body whose second half follows a write.
    pub async fn send_in_parts(&self) -> Result<()> {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<&'static str>();
        let (storage, signals) = (self.ctx.storage().clone(), self.signals.clone());
        sender.send("first").map_err(Error::from_std)?;
        self.ctx.spawn(async move {
            signals.wait("continue").await;
            storage.put("key", &"second").unwrap();
            let _ = sender.send("second");
        })?;
        let parts = futures_util::stream::unfold(receiver, async |mut receiver| {
            let part = receiver.recv().await?;
            let frame = http_body::Frame::data(Bytes::from(part));
            Some((Ok::<_, Error>(frame), receiver))
        });
        let request = Request::builder()
            .method("POST")
            .uri("http://upstream.test/parts")
            .body(Body::new(StreamBody::new(parts)))?;
        self.ctx.env().fetch(request).await.map(drop)
    }

    pub async fn send_and_panic(&self) {
        drop(self.ctx.env().fetch(get("/never")));
        panic!("on purpose");
    }

    pub async fn send_nowhere(&self) -> Result<()> {
        let request = Request::builder().uri("/path").body(Body::empty())?;
        self.ctx.env().fetch(request).await.map(drop)
    }
}

fn classes(node: NodeBuilder) -> NodeBuilder {
    node.class::<Sender>(ClassOptions::default())
}

fn world() -> (World, Echo) {
    let echo = Echo::default();
    let client = Arc::new(echo.clone());
    (World::new(|node| classes(node).outbound(client)), echo)
}

fn sender(world: &World) -> Stub<Sender> {
    world.env().object::<Sender>().get_by_name("sender")
}

#[test]
fn a_request_does_not_leave_before_what_was_written_before_it_is_durable() {
    run(async {
        let (world, echo) = world();
        world.disk.hold_syncs();
        let call = sender(&world).write_and_send();
        world.fence().await;
        assert!(echo.paths().is_empty());
        world.disk.release_syncs();
        assert_eq!(call.await.unwrap(), "/written");
        assert_eq!(echo.paths(), ["/written"]);
    });
}

#[test]
fn unawaited_requests_leave_in_the_order_they_were_made() {
    run(async {
        let (world, echo) = world();
        world.disk.hold_syncs();
        let call = sender(&world).send_many(40);
        world.until(|node| node.stats().held >= 41).await;
        assert!(echo.paths().is_empty());
        world.disk.release_syncs();
        call.await.unwrap();
        // The answer may overtake them.
        world.until(|_| echo.paths().len() >= 40).await;
        let numbers: Vec<_> = (0..40).map(|number| format!("/{number}")).collect();
        assert_eq!(echo.paths(), numbers);
    });
}

#[test]
fn each_part_of_a_body_waits_for_the_writes_before_it() {
    run(async {
        let (world, echo) = world();
        sender(&world).send_in_parts().await.unwrap();
        let mut body = echo.take().into_body();
        let mut next = async || Some(body.frame().await?.unwrap().into_data().unwrap());
        assert_eq!(next().await.unwrap(), "first");
        world.disk.hold_syncs();
        world.signals.give("continue");
        world.until(|node| node.stats().held >= 1).await;
        world.disk.release_syncs();
        assert_eq!(next().await.unwrap(), "second");
        assert_eq!(next().await, None);
    });
}

#[test]
fn a_poll_that_panics_sends_nothing() {
    run(async {
        let (world, echo) = world();
        sender(&world).send_and_panic().await.unwrap_err();
        assert!(echo.paths().is_empty());
    });
}

#[test]
fn a_failed_log_lets_no_request_out() {
    run(async {
        let (world, echo) = world();
        world.disk.fail_syncs(true);
        let error = sender(&world).write_and_send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(echo.paths().is_empty());
    });
}

#[test]
fn a_request_from_outside_of_objects_leaves_at_once() {
    run(async {
        let (world, echo) = world();
        drop(world.env().fetch(get("/outside")));
        assert_eq!(echo.paths(), ["/outside"]);
    });
}

#[test]
fn a_request_that_cannot_be_sent_says_why() {
    run(async {
        let (world, _) = world();
        let error = sender(&world).send_nowhere().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.message().contains("`/path` is not an absolute URL"));

        let without = World::new(classes);
        let error = without.env().fetch(get("/")).await.unwrap_err();
        assert!(error.message().contains("has no HTTP client"), "{error}");
    });
}
