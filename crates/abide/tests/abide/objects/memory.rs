//! The memory budget: idle objects leave, and new work that would exceed it is refused.

use std::time::Duration;

use abide::{Body, ErrorKind, Node, limits::EVENT_BYTES, prelude::*, storage::MemoryUse};
use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};

use crate::support::{Signals, World, is_answered, run, signals};

const KIB: u64 = 1 << 10;

#[durable_object]
struct Large {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Large {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = signals(&env);
        signals.note(ctx.name().unwrap_or_default());
        Ok(Self { ctx, signals })
    }

    /// The body has as many bytes as the path says; in this many frames as the query says, or in one.
    async fn fetch(&self, request: Request) -> Result<Response> {
        let size = request.uri().path()[1..].parse().map_err(Error::from_std)?;
        let Some(frames) = request.uri().query() else {
            return Ok(Response::new(Body::from(vec![7; size])));
        };
        let frames: usize = frames.parse().map_err(Error::from_std)?;
        let frames = (0..frames).map(move |_| {
            let frame = http_body::Frame::data(Bytes::from(vec![7; size]));
            Ok::<_, Error>(frame)
        });
        let stream = async_stream(frames);
        Ok(Response::new(Body::new(StreamBody::new(stream))))
    }
}

/// A stream whose first item is not there at once.
fn async_stream<T: Send + 'static>(
    items: impl Iterator<Item = T> + Send + 'static,
) -> impl futures_util::Stream<Item = T> + Send {
    use futures_util::StreamExt as _;
    futures_util::stream::iter(items).then(|item| async {
        tokio::task::yield_now().await;
        item
    })
}

#[rpc]
impl Large {
    pub async fn write(&self) -> Result<()> {
        self.ctx.storage().put("key", &1)
    }

    pub async fn wait(&self) {
        self.signals.wait("go").await;
    }

    pub async fn take(&self, _content: Vec<u8>) {
        self.signals.wait("go").await;
    }

    pub async fn write_and_give(&self, bytes: usize) -> Result<String> {
        self.ctx.storage().put("key", &bytes)?;
        Ok("x".repeat(bytes))
    }

    /// Calls another object when told, with much.
    pub async fn call_another(&self, name: String) -> Result<()> {
        self.signals.wait("call").await;
        let env = self.ctx.env();
        let other = env.object::<Self>().get_by_name(&name);
        other.drop_it(vec![7; 200 * KIB as usize]).await
    }

    pub async fn drop_it(&self, _content: Vec<u8>) {}
}

fn world(kib: u64) -> World {
    World::with_memory(kib * KIB, |node| {
        node.class::<Large>(ClassOptions::default().idle_timeout(Duration::MAX))
    })
}

fn object(world: &World, name: impl std::fmt::Display) -> Stub<Large> {
    world.env().object().get_by_name(&name.to_string())
}

fn is_refused<R: std::fmt::Debug>(result: Result<R>) {
    let error = result.unwrap_err();
    assert!(error.overloaded() && error.retryable(), "{error:?}");
    assert!(error.to_string().contains("memory budget"), "{error}");
}

#[test]
fn the_least_recently_used_objects_leave_memory_when_their_share_is_used() {
    run(async {
        let world = world(4 * 1024);
        let share = 2 * 1024 * KIB;
        for number in 0..300 {
            for name in ["hot".to_owned(), number.to_string()] {
                world.clock.advance(Duration::from_millis(1));
                object(&world, name).write().await.unwrap();
            }
            // An object that was just loaded may be one too many until the next one comes.
            let taken = world.memory_for(MemoryUse::Objects);
            assert!(taken <= share + 64 * KIB, "{taken} for {number}");
        }
        let stats = world.node.stats();
        assert!(stats.resident < 100, "{}", stats.resident);
        assert_eq!(stats.overloaded, 0);
        let lives = world.signals.notes();
        assert_eq!(lives.len(), 301, "the hot one, and each other, lived once");

        // The newest are still there, the oldest are not.
        object(&world, 299).write().await.unwrap();
        assert_eq!(world.signals.notes().len(), 301);
        object(&world, 0).write().await.unwrap();
        assert_eq!(world.signals.notes().len(), 302);
    });
}

#[test]
fn with_all_objects_busy_no_object_starts_and_live_ones_keep_working() {
    run(async {
        let world = world(4 * 1024);
        let mut waiting = Vec::new();
        let refused = loop {
            let mut call = object(&world, waiting.len()).wait();
            world.fence().await;
            if is_answered(&mut call) {
                break waiting.len();
            }
            waiting.push(call);
            assert!(waiting.len() < 200, "nothing is refused");
        };
        assert!(refused > 10, "{refused}");
        is_refused(object(&world, "another").write().await);
        assert_eq!(world.refused_for(MemoryUse::Objects), 2);
        object(&world, 0).write().await.unwrap();
        let lives = world.signals.notes();
        assert_eq!(lives.len(), refused, "a busy object left memory");

        for call in waiting {
            world.signals.give("go");
            call.await.unwrap();
        }
        world.clock.advance(Duration::from_secs(1));
        object(&world, "another").write().await.unwrap();
    });
}

#[test]
fn events_count_their_bytes_and_calls_between_objects_still_run() {
    run(async {
        let world = world(4 * 1024);
        let caller = object(&world, "caller").call_another("called".to_owned());
        let busy = object(&world, "busy");
        let mut taken = Vec::new();
        // CBOR of a `Vec<u8>` of small numbers has a byte for each.
        let mut least = 0;
        loop {
            // Room for a small event is left in the end.
            let used: u64 = world
                .node
                .store()
                .memory()
                .usage()
                .iter()
                .map(|of| of.bytes)
                .sum();
            let size = match 4 * 1024 * KIB - used {
                room if room < 150 * KIB && room > 100 * KIB => 50 * KIB,
                _ => 100 * KIB,
            };
            let mut call = busy.take(vec![7; size as usize]);
            if is_answered(&mut call) {
                break;
            }
            taken.push(call);
            least += size;
            world.fence().await;
            assert!(taken.len() < 100, "nothing is refused");
        }
        let events = world.memory_for(MemoryUse::Events);
        assert!(
            events >= least && least > 2 * 1024 * KIB,
            "{events} {least}"
        );
        is_refused(busy.take(vec![7; 100 * KIB as usize]).await);
        assert_eq!(world.refused_for(MemoryUse::Events), 2);
        object(&world, "new").write().await.unwrap();

        world.signals.give("call");
        caller.await.unwrap();
        assert_eq!(world.refused_for(MemoryUse::Events), 2);
        for call in taken {
            world.signals.give("go");
            call.await.unwrap();
        }
        world
            .until(|_| world.memory_for(MemoryUse::Events) == 0)
            .await;
        busy.write().await.unwrap();
    });
}

#[test]
fn what_an_output_gate_holds_counts_its_bytes() {
    run(async {
        let world = world(4 * 1024);
        let object = object(&world, "writer");
        object.write().await.unwrap();
        world.disk.hold_syncs();
        let mut held = Vec::new();
        loop {
            let mut call = object.write_and_give(100 * KIB as usize);
            let is_held = |node: &Node| node.stats().held == held.len() as u64 + 1;
            while !is_answered(&mut call) && !is_held(&world.node) {
                tokio::task::yield_now().await;
            }
            if !is_held(&world.node) {
                break;
            }
            held.push(call);
            assert!(held.len() < 100, "nothing is refused");
        }
        let replies = world.memory_for(MemoryUse::Replies);
        // The last may be refused only when it has its answer, and then its error is held.
        let refused = held.pop();
        let least = held.len() as u64 * 100 * KIB;
        assert!(
            replies >= least && least > 3 * 1024 * KIB,
            "{replies} {least}"
        );
        assert!(world.memory_for(MemoryUse::Log) > 0);
        world.disk.release_syncs();
        for call in held {
            assert_eq!(call.await.unwrap().len(), 100 * KIB as usize);
        }
        if let Err(error) = refused.unwrap().await {
            assert!(error.overloaded(), "{error}");
        }
        world
            .until(|_| world.memory_for(MemoryUse::Replies) == 0)
            .await;
        world.until(|_| world.memory_for(MemoryUse::Log) == 0).await;
        object.write().await.unwrap();
    });
}

#[test]
fn a_response_counts_until_its_bytes_are_dropped() {
    run(async {
        let world = world(1024);
        let object = object(&world, "server");
        let get = || {
            object.fetch(
                abide::http::Request::get("/500000")
                    .body(Body::empty())
                    .unwrap(),
            )
        };
        let (one, other) = (get().await.unwrap(), get().await.unwrap());
        assert_eq!(world.memory_for(MemoryUse::Replies), 1_000_000);
        let bytes = one.into_body().collect().await.unwrap().to_bytes();
        let slice = bytes.slice(10..20);
        drop((bytes, other));
        assert_eq!(world.memory_for(MemoryUse::Replies), 500_000);
        drop(slice);
        assert_eq!(world.memory_for(MemoryUse::Replies), 0);
    });
}

#[test]
fn without_memory_a_streamed_body_sends_one_frame_at_a_time() {
    const FRAME: u64 = 300 * KIB;
    run(async {
        let world = world(1024);
        let object = object(&world, "server");
        let uri = format!("/{FRAME}?12");
        let request = abide::http::Request::get(uri).body(Body::empty()).unwrap();
        let mut body = object.fetch(request).await.unwrap().into_body();
        world.until(|node| node.store().memory().is_over()).await;
        let most = world.memory_for(MemoryUse::Bodies);
        assert!(most <= 1024 * KIB + FRAME, "{most}");

        let mut whole = 0;
        loop {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = tokio::task::yield_now() => {
                    world.clock.advance(Duration::from_millis(10));
                    continue;
                }
            };
            let Some(frame) = frame else { break };
            whole += frame.unwrap().into_data().unwrap().len() as u64;
        }
        assert_eq!(whole, 12 * FRAME);
        drop(body);
        world
            .until(|_| world.memory_for(MemoryUse::Bodies) == 0)
            .await;
    });
}

#[test]
fn an_event_that_waits_takes_what_its_content_takes_and_a_little_more() {
    run(async {
        let world = world(4 * 1024);
        let object = object(&world, "busy");
        let mut call = object.take(vec![7; 1_000]);
        assert!(!is_answered(&mut call));
        let taken = world.memory_for(MemoryUse::Events) as usize;
        assert!((1_000 + EVENT_BYTES..5_000).contains(&taken), "{taken}");
        world.signals.give("go");
        call.await.unwrap();
        world
            .until(|_| world.memory_for(MemoryUse::Events) == 0)
            .await;
        let unknown = object.untyped().call::<()>("nothing", &()).await;
        assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound);
        world
            .until(|_| world.memory_for(MemoryUse::Events) == 0)
            .await;
    });
}
