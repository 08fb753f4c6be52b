//! Nothing leaves an object before its writes are durable.

use std::{convert::Infallible, path::Path, sync::Arc, time::Duration};

use abide::{
    ErrorKind, Node,
    prelude::*,
    storage::{SimDisk, Store, StoreOptions},
};
use bytes::Bytes;
use http_body_util::BodyExt;

use crate::support::{Signals, World, is_answered, run, signals};

#[durable_object]
struct Writer {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Writer {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
        })
    }

    /// `/whole` writes and answers; `/listen` notes the frames of its request; `/endless` answers without end;
    /// `/stream` answers, then writes, then sends the body's second half; `/forward` sends the same to another.
    async fn fetch(&self, request: Request) -> Result<Response> {
        if request.uri().path() == "/whole" {
            self.ctx.storage().put("key", "fetch")?;
            return Ok(Response::new(Body::from("written")));
        }
        if request.uri().path() == "/listen" {
            let mut body = request.into_body();
            while let Some(frame) = body.frame().await {
                self.signals.note(format!("{:?}", frame?.into_data()));
            }
            return Ok(Response::new(Body::empty()));
        }
        if request.uri().path() == "/endless" {
            return Ok(Response::new(Body::new(Endless)));
        }
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let (storage, signals) = (self.ctx.storage().clone(), self.signals.clone());
        sender.send("first").map_err(Error::from_std)?;
        self.ctx.spawn(async move {
            signals.wait("continue").await;
            storage.put("key", "stream").unwrap();
            let _ = sender.send("second");
        })?;
        let body = Body::new(Lines(receiver));
        if request.uri().path() == "/forward" {
            let listener = self.ctx.env().object::<Self>().get_by_name("listener");
            let request = Request::builder().uri("/listen").body(body)?;
            return listener.fetch(request).await;
        }
        Ok(Response::new(body))
    }
}

/// A body whose frames come one by one.
struct Lines(tokio::sync::mpsc::UnboundedReceiver<&'static str>);

impl http_body::Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(cx)
            .map(|line| line.map(|line| Ok(http_body::Frame::data(Bytes::from(line)))))
    }
}

/// A body that is always ready and never ends.
struct Endless;

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let frame = http_body::Frame::data(Bytes::from(vec![0; 1 << 16]));
        std::task::Poll::Ready(Some(Ok(frame)))
    }
}

#[rpc]
impl Writer {
    pub async fn write(&self, value: u32) -> Result<()> {
        self.ctx.storage().put("key", &value)
    }

    pub async fn write_unconfirmed(&self, value: u32) -> Result<()> {
        self.ctx
            .storage()
            .put_with("key", &value, PutOptions::default().allow_unconfirmed(true))
    }

    pub async fn write_unconfirmed_and_sync(&self, value: u32) -> Result<()> {
        self.ctx.storage().put_with(
            "key",
            &value,
            PutOptions::default().allow_unconfirmed(true),
        )?;
        self.signals.give("syncing");
        self.ctx.storage().sync().await
    }

    pub async fn read(&self) -> Result<Option<u32>> {
        self.ctx.storage().get("key")
    }

    pub async fn write_and_tell(&self, other: String) -> Result<()> {
        self.ctx.storage().put("key", &1)?;
        let other = self.ctx.env().object::<Self>().get_by_name(&other);
        other.told().await
    }

    pub async fn told(&self) {
        self.signals.note("told");
    }

    /// Calls another object many times, now with a write before it and now without.
    pub async fn tell_in_order(&self, other: String, count: u32) -> Result<()> {
        let other = self.ctx.env().object::<Self>().get_by_name(&other);
        let mut calls = Vec::new();
        for number in 0..count {
            if number % 3 == 0 {
                self.ctx.storage().put("key", &number)?;
            }
            calls.push(other.heard(number));
            if number % 2 == 0 {
                tokio::task::yield_now().await;
            }
        }
        for call in calls {
            call.await?;
        }
        Ok(())
    }

    pub async fn heard(&self, number: u32) {
        self.signals.note(number.to_string());
    }

    /// Writes something that fills a disk.
    pub async fn write_large(&self, number: u32) -> Result<u32> {
        let ballast = number.to_string().repeat(50_000);
        self.ctx.storage().put("large", &(number, ballast))?;
        Ok(number)
    }

    pub async fn read_large(&self) -> Result<u32> {
        let found: Option<(u32, String)> = self.ctx.storage().get("large")?;
        Ok(found.map_or(0, |(number, _)| number))
    }

    /// How many objects of this class there are.
    pub async fn count_all(&self) -> Result<usize> {
        let all = self.ctx.env().object::<Self>();
        all.untyped().written().map(|ids| ids.len())
    }

    pub async fn panic(&self) {
        panic!("on purpose");
    }
}

fn world() -> World {
    World::new(|node| node.class::<Writer>(ClassOptions::default()))
}

fn writer(world: &World, name: &str) -> Stub<Writer> {
    world.env().object::<Writer>().get_by_name(name)
}

fn request(path: &str) -> Request {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

#[test]
fn a_result_waits_until_the_write_is_durable() {
    run(async {
        let world = world();
        let writer = writer(&world, "a");
        world.disk.hold_syncs();
        let mut call = writer.write(1);
        world.fence().await;
        assert!(!is_answered(&mut call));
        assert_eq!(world.node.stats().held, 1);
        world.disk.release_syncs();
        call.await.unwrap();
        world.until(|node| node.stats().held == 0).await;
    });
}

#[test]
fn a_reader_waits_for_the_write_that_it_has_seen_and_others_do_not() {
    run(async {
        let world = world();
        let (written, other) = (writer(&world, "written"), writer(&world, "other"));
        world.disk.hold_syncs();
        let write = written.write(5);
        let mut read = written.read();
        assert_eq!(other.read().await.unwrap(), None);
        world.fence().await;
        assert!(!is_answered(&mut read));
        world.disk.release_syncs();
        assert_eq!(read.await.unwrap(), Some(5));
        write.await.unwrap();
    });
}

#[test]
fn a_response_waits_until_the_write_is_durable() {
    run(async {
        let world = world();
        let writer = writer(&world, "a");
        world.disk.hold_syncs();
        let mut call = writer.fetch(request("/whole"));
        world.fence().await;
        assert!(!is_answered(&mut call));
        world.disk.release_syncs();
        let body = call
            .await
            .unwrap()
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes();
        assert_eq!(body, "written");
    });
}

#[test]
fn each_frame_of_a_streamed_body_waits_for_the_writes_before_it() {
    run(async {
        let world = world();
        let writer = writer(&world, "a");
        let mut body = writer.fetch(request("/stream")).await.unwrap().into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first, "first");

        world.disk.hold_syncs();
        world.signals.give("continue");
        world.until(|node| node.stats().held >= 1).await;
        let waker = std::task::Waker::noop();
        let mut cx = std::task::Context::from_waker(waker);
        let next = std::pin::Pin::new(&mut body);
        assert!(http_body::Body::poll_frame(next, &mut cx).is_pending());

        world.disk.release_syncs();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "second");
    });
}

#[test]
fn each_frame_of_a_body_waits_for_the_writes_before_it() {
    run(async {
        let world = world();
        let call = writer(&world, "a").fetch(request("/forward"));
        let first = r#"Ok(b"first")"#;
        world.until(|_| world.signals.notes() == [first]).await;

        world.disk.hold_syncs();
        world.signals.give("continue");
        world.until(|node| node.stats().held >= 1).await;
        world.fence().await;
        assert_eq!(world.signals.notes(), [first]);

        world.disk.release_syncs();
        call.await.unwrap();
        assert_eq!(world.signals.notes(), [first, r#"Ok(b"second")"#]);
    });
}

#[test]
fn a_reader_that_stalls_is_given_up_and_told() {
    run(async {
        let world = world();
        let response = writer(&world, "a").fetch(request("/endless")).await;
        let mut body = response.unwrap().into_body();
        world.fence().await;
        world.clock.advance(abide::limits::BODY_STALL_LIMIT / 2);
        world.fence().await;
        // It may still continue: this would hang if the body had been given up.
        world.until(|node| node.stats().outstanding == 1).await;
        world.clock.advance(abide::limits::BODY_STALL_LIMIT / 2);
        world.until(|node| node.stats().outstanding == 0).await;
        let error = loop {
            if let Err(error) = body.frame().await.unwrap() {
                break error;
            }
        };
        assert!(
            error.to_string().contains("took nothing for 60 s"),
            "{error}"
        );
        assert!(body.frame().await.is_none());
    });
}

#[test]
fn a_call_to_another_object_waits_until_the_write_is_durable() {
    run(async {
        let world = world();
        let writer = writer(&world, "a");
        world.disk.hold_syncs();
        let call = writer.write_and_tell("b".to_owned());
        world.fence().await;
        assert!(world.signals.notes().is_empty());
        world.disk.release_syncs();
        call.await.unwrap();
        assert_eq!(world.signals.notes(), ["told"]);
    });
}

#[test]
fn what_an_object_sends_leaves_in_order_whether_or_not_it_has_to_wait() {
    const COUNT: u32 = 3_000;
    run(async {
        let world = world();
        writer(&world, "a")
            .tell_in_order("b".to_owned(), COUNT)
            .await
            .unwrap();
        let expected: Vec<_> = (0..COUNT).map(|number| number.to_string()).collect();
        assert_eq!(world.signals.notes(), expected);
    });
}

#[test]
fn an_unconfirmed_write_is_not_waited_for() {
    run(async {
        let world = world();
        let writer = writer(&world, "a");
        world.disk.hold_syncs();
        writer.write_unconfirmed(3).await.unwrap();
        assert_eq!(writer.read().await.unwrap(), Some(3));
        world.disk.release_syncs();
    });
}

#[test]
fn sync_waits_for_unconfirmed_writes_too() {
    run(async {
        let world = world();
        let writer = writer(&world, "a");
        world.disk.hold_syncs();
        let mut call = writer.write_unconfirmed_and_sync(3);
        world.signals.wait("syncing").await;
        world.fence().await;
        assert!(!is_answered(&mut call));
        world.disk.release_syncs();
        call.await.unwrap();
    });
}

#[test]
fn a_new_incarnation_does_not_show_what_is_not_durable_yet() {
    run(async {
        let world = world();
        let writer = writer(&world, "a");
        world.disk.hold_syncs();
        let write = writer.write(9);
        let mut panic = writer.panic();
        world.until(|node| node.stats().resets == 1).await;
        let mut read = writer.read();
        world.fence().await;
        assert!(!is_answered(&mut read) && !is_answered(&mut panic));
        world.disk.release_syncs();
        assert_eq!(read.await.unwrap(), Some(9));
        panic.await.unwrap_err();
        write.await.unwrap();
    });
}

#[test]
fn a_second_node_on_one_store_does_not_show_what_is_not_durable_yet() {
    run(async {
        let options = StoreOptions::small().manual(true);
        let disk = Arc::new(SimDisk::new());
        let store = Store::open(disk, Path::new("/data"), options).unwrap();
        let signals = Signals::default();
        let start = || {
            Node::builder(store.clone())
                .class::<Writer>(ClassOptions::default())
                .with(signals.clone())
                .workers(1)
                .start()
                .unwrap()
        };
        let of = |node: &Node| node.env().object::<Writer>().get_by_name("a");

        let first = start();
        let write = of(&first).with_idempotency_key("once").write(7);
        while store.appended() == store.durable() {
            tokio::task::yield_now().await;
        }
        // The write is committed, and nothing makes it durable.
        first.shutdown(Duration::ZERO).await.unwrap();
        drop(first);

        let second = start();
        let mut again = of(&second).with_idempotency_key("once").write(7);
        let mut read = of(&second).read();
        while second.stats().held < 2 {
            assert!(!is_answered(&mut again) && !is_answered(&mut read));
            tokio::task::yield_now().await;
        }
        assert!(store.write_group());
        again.await.unwrap();
        assert_eq!(read.await.unwrap(), Some(7));
        drop(write);
        second.shutdown(Duration::from_secs(10)).await.unwrap();
        drop(second);
        store.close().unwrap();
    });
}

#[test]
fn who_has_counted_objects_waits_for_those_that_are_not_durable_yet() {
    run(async {
        let world = world();
        assert_eq!(writer(&world, "counter").count_all().await.unwrap(), 0);
        world.disk.hold_syncs();
        let write = writer(&world, "a").write(1);
        let mut count = writer(&world, "counter").count_all();
        world.fence().await;
        assert!(!is_answered(&mut count));
        world.disk.release_syncs();
        assert_eq!(count.await.unwrap(), 1);
        write.await.unwrap();
    });
}

#[test]
fn an_object_with_writes_that_are_not_durable_stays_in_memory() {
    run(async {
        let world = world();
        let writer = writer(&world, "a");
        world.disk.hold_syncs();
        let write = writer.write(9);
        world.fence().await;
        world.clock.advance(Duration::from_secs(11));
        world.fence().await;
        world.disk.release_syncs();
        write.await.unwrap();
        assert_eq!(world.node.stats().evicted, 0);
    });
}

#[test]
fn a_failed_sync_releases_nothing_and_stops_the_node() {
    run(async {
        let world = world();
        let (a, b) = (writer(&world, "a"), writer(&world, "b"));
        b.write(7).await.unwrap();
        world.disk.hold_syncs();
        let (write, read) = (a.write(1), a.read());
        let telling = b.write_and_tell("c".to_owned());
        world.fence().await;
        world.disk.fail_syncs(true);
        world.disk.release_syncs();

        for error in [
            write.await.unwrap_err(),
            read.await.unwrap_err(),
            telling.await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(
                error.message().contains("log has failed") && !error.retryable(),
                "{error:?}"
            );
        }
        assert!(
            world.signals.notes().is_empty(),
            "the call must not have left"
        );
        world.node.wait_failed().await;
        assert!(world.node.failed());
        assert_eq!(a.read().await.unwrap_err().kind(), ErrorKind::Unavailable);
    });
}

#[test]
fn a_full_disk_is_an_error_and_the_object_works_when_space_returns() {
    run(async {
        let world = world();
        let writer = writer(&world, "a");
        world.disk.set_capacity(Some(world.disk.used()));
        let mut acknowledged = 0;
        let error = loop {
            match writer.write_large(acknowledged + 1).await {
                Ok(written) => acknowledged = written,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(error.object_reset() && !error.retryable());
        assert_eq!(writer.read_large().await.unwrap(), acknowledged);

        world.disk.set_capacity(None);
        while writer.write_large(acknowledged + 1).await.is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(writer.read_large().await.unwrap(), acknowledged + 1);
    });
}

#[test]
fn what_was_acknowledged_is_there_after_the_machine_lost_power() {
    run(async {
        let world = world();
        let writer_a = writer(&world, "a");
        writer_a.write(41).await.unwrap();
        let disk: SimDisk = world.disk.crash(7);
        let world = World::on(disk, 1, |node| {
            node.class::<Writer>(ClassOptions::default())
        });
        assert_eq!(writer(&world, "a").read().await.unwrap(), Some(41));
    });
}
