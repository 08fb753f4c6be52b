//! Program code that runs when something leaves an object: HTTP clients, wakers, destructors of responses that were
//! not taken. It runs outside of every handler, and whatever it does, the log, the workers and other objects
//! continue.

use std::{
    future::Future,
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
};

use abide::{
    Call, ErrorKind, Fetching, Node, Outbound,
    prelude::*,
    storage::{SimDisk, Store, StoreOptions},
};

use crate::support::{Signals, World, is_answered, run, signals};

/// Panics once when it is dropped.
#[derive(Clone)]
struct Bomb(Arc<AtomicBool>);

impl Bomb {
    fn armed() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.0.swap(false, Ordering::SeqCst), "a destructor panics");
    }
}

/// Answers with a response whose destructor panics.
#[durable_object]
struct Armed {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Armed {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
        })
    }

    /// `/write` writes before it answers, `/abort` resets the object, `/later` waits for leave.
    async fn fetch(&self, request: Request) -> Result<Response> {
        match request.uri().path() {
            "/write" => self.ctx.storage().put("key", &1)?,
            "/abort" => self.ctx.abort("on purpose"),
            "/later" => self.signals.wait("go").await,
            _ => {}
        }
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(Bomb::armed());
        Ok(response)
    }
}

#[rpc]
impl Armed {
    pub async fn write(&self, value: u32) -> Result<()> {
        self.ctx.storage().put("key", &value)
    }

    /// Writes, then sends this many requests; returns the outcome of the first.
    pub async fn write_and_send(&self, count: u32) -> Result<()> {
        self.ctx.storage().put("key", &1)?;
        let calls: Vec<_> = (0..count).map(|number| self.send(number)).collect();
        for call in calls {
            call.await?;
        }
        Ok(())
    }

    pub async fn send_one(&self) -> Result<()> {
        self.send(0).await.map(drop)
    }

    /// Sends requests, some with a write before them and some without.
    pub async fn send_in_order(&self, count: u32) -> Result<()> {
        let mut calls = Vec::new();
        for number in 0..count {
            if number % 3 == 0 {
                self.ctx.storage().put("key", &number)?;
            }
            calls.push(self.send(number));
            if number % 2 == 0 {
                tokio::task::yield_now().await;
            }
        }
        for call in calls {
            call.await?;
        }
        Ok(())
    }

    pub async fn quick(&self) {}

    fn send(&self, number: u32) -> Call<Response> {
        let request = Request::builder()
            .uri(format!("http://example.test/{number}"))
            .body(Body::empty());
        self.ctx.env().fetch(request.unwrap())
    }
}

/// An HTTP client that notes the threads and the order in which it is called, and panics when it is told to.
#[derive(Default)]
struct Client {
    panics: AtomicUsize,
    threads: Mutex<Vec<String>>,
    sent: Mutex<Vec<String>>,
}

impl Outbound for Client {
    fn fetch(&self, request: Request) -> Fetching {
        let name = thread::current().name().unwrap_or("").to_owned();
        self.threads.lock().unwrap().push(name);
        let path = request.uri().path().trim_start_matches('/').to_owned();
        self.sent.lock().unwrap().push(path);
        let left = &self.panics;
        if left
            .try_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            })
            .is_ok()
        {
            panic!("the client panics");
        }
        Box::pin(std::future::ready(Ok(Response::new(Body::empty()))))
    }
}

fn world_with(client: &Arc<Client>) -> World {
    World::new(|node| {
        node.class::<Armed>(ClassOptions::default())
            .outbound(Arc::clone(client) as Arc<dyn Outbound>)
    })
}

fn world() -> World {
    world_with(&Arc::default())
}

fn armed(world: &World, name: &str) -> Stub<Armed> {
    world.env().object::<Armed>().get_by_name(name)
}

fn request(path: &str) -> Request {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

/// What must hold after each of these panics.
async fn all_is_well(world: &World, panics: u64) {
    armed(world, "another").write(2).await.unwrap();
    world.until(|node| node.stats().panics == panics).await;
    world.until(|node| node.stats().held == 0).await;
    assert!(!world.node.failed() && !world.node.store().failed());
    world
        .node
        .shutdown(std::time::Duration::from_secs(10))
        .await
        .unwrap();
    world.node.store().close().unwrap();
}

#[test]
fn a_worker_survives_the_destructor_of_a_response_whose_caller_has_gone() {
    run(async {
        let world = world();
        let call = armed(&world, "a").fetch(request("/later"));
        world.fence().await;
        drop(call);
        world.signals.give("go");
        all_is_well(&world, 1).await;
    });
}

#[test]
fn the_log_survives_the_destructor_of_a_response_whose_caller_has_gone() {
    run(async {
        let world = world();
        world.disk.hold_syncs();
        let calls: Vec<_> = (0..3)
            .map(|_| armed(&world, "a").fetch(request("/write")))
            .collect();
        let mut write = armed(&world, "a").write(1);
        world.fence().await;
        assert!(!is_answered(&mut write));
        drop(calls);
        world.disk.release_syncs();
        write.await.unwrap();
        all_is_well(&world, 3).await;
    });
}

#[test]
fn a_worker_survives_the_destructor_of_a_dropped_response() {
    run(async {
        let world = world();
        let error = armed(&world, "a")
            .fetch(request("/abort"))
            .await
            .unwrap_err();
        assert_eq!(error.message(), "on purpose");
        all_is_well(&world, 1).await;
    });
}

#[test]
fn a_node_that_stops_drops_what_it_holds_although_destructors_panic() {
    run(async {
        let options = StoreOptions::small().manual(true);
        let disk = Arc::new(SimDisk::new());
        let store = Store::open(disk, Path::new("/data"), options).unwrap();
        let node = Node::builder(store.clone())
            .class::<Armed>(ClassOptions::default())
            .with(Signals::default())
            .workers(1)
            .start()
            .unwrap();
        let armed = node.env().object::<Armed>().get_by_name("a");
        let calls: Vec<_> = (0..3).map(|_| armed.fetch(request("/write"))).collect();
        while node.stats().held < 3 {
            tokio::task::yield_now().await;
        }
        node.shutdown(std::time::Duration::ZERO).await.unwrap();
        drop((node, armed));
        for call in calls {
            assert_eq!(call.await.unwrap_err().kind(), ErrorKind::Unavailable);
        }
        store.close().unwrap();
    });
}

#[test]
fn a_failed_log_is_reported_to_all_although_destructors_panic() {
    run(async {
        let world = world();
        armed(&world, "a").write(7).await.unwrap();
        world.disk.hold_syncs();
        let first = armed(&world, "a").fetch(request("/write"));
        let second = armed(&world, "a").write(2);
        world.fence().await;
        world.disk.fail_syncs(true);
        world.disk.release_syncs();
        for error in [first.await.unwrap_err(), second.await.unwrap_err()] {
            assert!(error.message().contains("log has failed"), "{error}");
        }
        world.node.wait_failed().await;
        world.until(|node| node.stats().panics == 1).await;
        assert_eq!(world.node.stats().held, 0);
    });
}

#[test]
fn a_panicking_http_client_is_an_error_to_its_caller_only() {
    run(async {
        let client = Arc::new(Client::default());
        let world = world_with(&client);
        client.panics.store(1, Ordering::SeqCst);
        let error = armed(&world, "a").send_one().await.unwrap_err();
        let told = error.message();
        assert!(
            told.contains("the HTTP client panicked") && !told.contains("the client panics"),
            "{told}"
        );

        client.panics.store(1, Ordering::SeqCst);
        world.disk.hold_syncs();
        let sending = armed(&world, "a").write_and_send(3);
        world.fence().await;
        assert_eq!(*client.sent.lock().unwrap(), ["0"]);
        world.disk.release_syncs();
        let error = sending.await.unwrap_err();
        let told = error.message();
        assert!(
            told.contains("the HTTP client panicked") && !told.contains("the client panics"),
            "{told}"
        );
        all_is_well(&world, 2).await;
        assert_eq!(*client.sent.lock().unwrap(), ["0", "0", "1", "2"]);
    });
}

#[test]
fn an_http_client_is_never_called_on_the_thread_that_writes_the_log() {
    run(async {
        let client = Arc::new(Client::default());
        let world = world_with(&client);
        world.disk.hold_syncs();
        let sending = armed(&world, "a").write_and_send(5);
        world.fence().await;
        world.disk.release_syncs();
        sending.await.unwrap();
        armed(&world, "a").send_one().await.unwrap();
        let threads = client.threads.lock().unwrap();
        assert_eq!(threads.len(), 6);
        // The second one releases departures on machines with more cores.
        for of_the_log in ["abide-log", "abide-release"] {
            assert_eq!(threads.iter().find(|name| *name == of_the_log), None);
        }
    });
}

#[test]
fn requests_reach_the_client_in_order_whether_or_not_they_have_to_wait() {
    const COUNT: u32 = 3_000;
    run(async {
        let client = Arc::new(Client::default());
        let world = world_with(&client);
        armed(&world, "a").send_in_order(COUNT).await.unwrap();
        let expected: Vec<_> = (0..COUNT).map(|number| number.to_string()).collect();
        assert_eq!(*client.sent.lock().unwrap(), expected);
    });
}

/// A waker that panics when it is woken, and notes that it was.
#[derive(Default)]
struct Panicking(AtomicBool);

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        panic!("a waker panics");
    }
}

fn poll_with<R>(call: &mut Call<R>, waker: &Waker) -> bool {
    let polled = Pin::new(call).poll(&mut Context::from_waker(waker));
    matches!(polled, Poll::Ready(_))
}

#[test]
fn a_panicking_waker_only_affects_its_owner() {
    run(async {
        let world = world();
        let (held, direct) = (
            Arc::new(Panicking::default()),
            Arc::new(Panicking::default()),
        );

        let mut call = armed(&world, "a").fetch(request("/later"));
        assert!(!poll_with(&mut call, &Waker::from(Arc::clone(&direct))));
        world.fence().await;
        world.signals.give("go");
        world.until(|_| direct.0.load(Ordering::SeqCst)).await;
        // The answer is there all the same.
        std::mem::forget(call.await.unwrap());

        world.disk.hold_syncs();
        let mut first = armed(&world, "b").write(1);
        let second = armed(&world, "b").write(2);
        assert!(!poll_with(&mut first, &Waker::from(Arc::clone(&held))));
        world.fence().await;
        world.disk.release_syncs();
        second.await.unwrap();
        assert!(held.0.load(Ordering::SeqCst));
        first.await.unwrap();
        all_is_well(&world, 2).await;
    });
}
