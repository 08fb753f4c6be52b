//! Presence, over sockets that beat and by heartbeats of other ways.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::limits::patterns::MAX_PRESENT;
use abide::{
    ErrorKind,
    patterns::presence::{Change, Presence, PresenceOptions, Present},
    prelude::*,
    socket::{ClientSocket, CloseFrame, Endpoint, Frame},
};

use crate::patterns::support::{Random, World, each_seed, millis, run, secs};

/// All changes of which the room has told, in order.
#[derive(Clone, Default)]
struct News(Arc<Mutex<Vec<Change>>>);

#[durable_object]
struct Room {
    ctx: Ctx,
    presence: Presence,
    others: RefCell<Vec<Response>>,
}

impl DurableObject for Room {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let options = env.require::<PresenceOptions>()?;
        let presence = Presence::open(&ctx, (*options).clone())?;
        let news = env.require::<News>()?;
        presence.on_change(move |change| {
            news.0.lock().unwrap().push(change.clone());
            Ok(())
        });
        Ok(Self {
            ctx,
            presence,
            others: RefCell::default(),
        })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let who = request.uri().path().trim_start_matches('/');
        let (ws, response) = self.presence.enter(who)?;
        assert_eq!(self.presence.who(&ws).as_deref(), Some(who));
        Ok(response)
    }

    async fn websocket_close(&self, ws: WebSocket, close: Close) -> Result<()> {
        self.presence.closed(&ws, close.was_clean)
    }
}

#[rpc]
impl Room {
    pub async fn beat(&self, who: String) -> Result<()> {
        self.presence.beat(&who)
    }

    pub async fn leave(&self, who: String) -> Result<bool> {
        self.presence.leave(&who)
    }

    pub async fn here(&self) -> Result<Vec<Present>> {
        self.presence.here()
    }

    /// Accepts as many sockets without a visitor as the object may have.
    pub async fn fill(&self) {
        while let Ok((_, response)) = self.ctx.accept_websocket(&[]) {
            self.others.borrow_mut().push(response);
        }
    }

    pub async fn open_with(&self, timeout: Duration, max: u32) -> Option<String> {
        let options = PresenceOptions::default().timeout(timeout).max_present(max);
        let opened = Presence::open(&self.ctx, options);
        opened.err().map(|error| error.to_string())
    }
}

const TIMEOUT: i64 = 20_000;

fn world(max_present: u32) -> (World, News) {
    let news = News::default();
    let shared = news.clone();
    let options = PresenceOptions::default()
        .timeout(millis(20_000))
        .max_present(max_present);
    let world = World::new(move |node| {
        node.class::<Room>(ClassOptions::default())
            .with(shared.clone())
            .with(options.clone())
    });
    (world, news)
}

fn room(world: &World) -> Stub<Room> {
    world.stub::<Room>("room")
}

async fn enter(world: &World, who: &str) -> Result<Endpoint> {
    let request = Request::builder()
        .uri(format!("/{who}"))
        .body(Body::empty())
        .unwrap();
    let mut response = room(world).fetch(request).await?;
    let client: ClientSocket = response.extensions_mut().remove().unwrap();
    client.claim()
}

async fn ping(socket: &mut Endpoint) {
    socket.deliver("ping").await.unwrap();
    match socket.next_frame().await {
        Frame::Message(message) => assert_eq!(message.as_text(), Some("pong")),
        Frame::Close(close) => panic!("{close:?}"),
    }
}

async fn here(world: &World) -> Vec<String> {
    let here = room(world).here().await.unwrap();
    here.into_iter().map(|present| present.who).collect()
}

/// A visitor's last heartbeat, and the last one that no crash can have forgotten.
#[derive(Default)]
struct Known {
    latest: Option<i64>,
    sure: Option<i64>,
    stored: Option<i64>,
    sockets: Vec<Endpoint>,
}

impl Known {
    fn sign(&mut self, now: i64, is_stored: bool) {
        (self.latest, self.sure) = (Some(now), Some(now));
        if is_stored {
            self.stored = Some(now);
        }
    }

    fn left(&mut self) {
        (self.latest, self.sure, self.stored) = (None, None, None);
    }
}

async fn simulate(seed: u64, mut random: Random) {
    let (mut world, news) = world(100);
    let mut all: BTreeMap<&str, Known> = BTreeMap::new();
    for step in 0..150 {
        let who = ["ada", "bob", "eve"][random.below(3) as usize];
        let known = all.entry(who).or_default();
        let now = world.now();
        match random.below(14) {
            0 | 1 if known.sockets.len() < 3 => {
                known.sockets.push(enter(&world, who).await.unwrap());
                known.sign(now, true);
            }
            0..=2 => {
                room(&world).beat(who.to_owned()).await.unwrap();
                known.sign(now, true);
            }
            3..=6 => {
                if let Some(socket) = known.sockets.last_mut() {
                    ping(socket).await;
                    known.sign(now, false);
                }
            }
            7 => {
                if let Some(socket) = known.sockets.pop() {
                    socket.end(CloseFrame::of(1000, ""));
                    world.node.settle().await.unwrap();
                    if known.sockets.is_empty() {
                        known.left();
                    }
                }
            }
            8 => {
                // The connection breaks.
                drop(known.sockets.pop());
                world.node.settle().await.unwrap();
            }
            9 => {
                room(&world).leave(who.to_owned()).await.unwrap();
                known.left();
                known
                    .sockets
                    .drain(..)
                    .for_each(|socket| socket.end(CloseFrame::of(1000, "")));
                world.node.settle().await.unwrap();
            }
            10..=12 => world.advance(millis(random.below(12_000))).await,
            _ => {
                world.node.settle().await.unwrap();
                let mut broken = Vec::new();
                for known in all.values_mut() {
                    broken.append(&mut known.sockets);
                    known.sure = known.stored;
                }
                world = world.killed_or_crashed(&mut random);
            }
        }
        if random.below(3) > 0 {
            continue;
        }
        let (here, now) = (here(&world).await, world.now());
        for (who, known) in &all {
            let is_here = here.iter().any(|present| present == who);
            let case = format!("seed {seed}, step {step}, {who}: {:?} {now}", known.latest);
            if known.sure.is_some_and(|at| now < at + TIMEOUT) {
                assert!(is_here, "{case}: a sign of life in time");
            }
            if known.latest.is_none_or(|at| now >= at + TIMEOUT * 5 / 4) {
                assert!(!is_here, "{case}: silent");
            }
        }
    }
    all.clear();
    for _ in 0..4 {
        world.advance(millis(20_000)).await;
    }
    assert_eq!(
        (here(&world).await.len(), world.alarms()),
        (0, 0),
        "seed {seed}"
    );
    // Visitors who have come leave, by turns.
    for who in ["ada", "bob", "eve"] {
        let news = news.0.lock().unwrap();
        let of: Vec<bool> = news
            .iter()
            .filter_map(|change| match change {
                Change::Came(name) => (name == who).then_some(true),
                Change::Left(name) => (name == who).then_some(false),
            })
            .collect();
        let wanted = [true, false].repeat(of.len() / 2);
        assert!(of == wanted, "seed {seed}, {who}: {of:?}");
    }
}

#[test]
fn only_visitors_that_send_heartbeats_are_present() {
    each_seed(simulate);
}

#[test]
fn a_room_hibernates_while_its_sockets_beat() {
    run(async {
        let (world, news) = world(100);
        let mut ada = enter(&world, "ada").await.unwrap();
        for _ in 0..20 {
            world.advance(secs(15)).await;
            ping(&mut ada).await;
        }
        assert_eq!(here(&world).await, ["ada"]);
        assert_eq!(*news.0.lock().unwrap(), [Change::Came("ada".to_owned())]);
        // The connection is open, and nothing beats.
        for _ in 0..3 {
            world.advance(secs(15)).await;
        }
        assert_eq!(here(&world).await, [""; 0]);
        // It beats again, which is noticed without any call.
        ping(&mut ada).await;
        world.advance(secs(19)).await;
        world.advance(secs(1)).await;
        let came = [
            Change::Came("ada".to_owned()),
            Change::Left("ada".to_owned()),
        ];
        let news = news.0.lock().unwrap();
        assert_eq!(news[..2], came);
    });
}

#[test]
fn what_a_socket_has_beaten_counts_when_it_breaks_also_beside_another() {
    run(async {
        let (world, _) = world(100);
        let _silent = enter(&world, "ada").await.unwrap();
        let mut beating = enter(&world, "ada").await.unwrap();
        world.advance(secs(15)).await;
        ping(&mut beating).await;
        drop(beating);
        world.advance(secs(19)).await;
        assert_eq!(here(&world).await, ["ada"], "19 s after a sign of life");
        world.advance(secs(6)).await;
        assert_eq!(here(&world).await, [""; 0]);
    });
}

#[test]
fn a_late_heartbeat_in_a_full_room_waits_and_blocks_no_departure() {
    run(async {
        let (world, news) = world(2);
        let mut ada = enter(&world, "ada").await.unwrap();
        // The connection is open, and nothing beats.
        for _ in 0..2 {
            world.advance(secs(20)).await;
        }
        for who in ["bob", "eve"] {
            room(&world).beat(who.to_owned()).await.unwrap();
        }
        world.advance(secs(5)).await;
        ping(&mut ada).await;
        assert_eq!(here(&world).await, ["bob", "eve"]);
        // The others fall silent, which is noticed without any call.
        for _ in 0..5 {
            world.advance(secs(10)).await;
            ping(&mut ada).await;
        }
        assert_eq!(here(&world).await, ["ada"]);
        let came = |who: &str| Change::Came(who.to_owned());
        let left = |who: &str| Change::Left(who.to_owned());
        let told = [
            came("ada"),
            left("ada"),
            came("bob"),
            came("eve"),
            left("bob"),
            left("eve"),
            came("ada"),
        ];
        assert_eq!(*news.0.lock().unwrap(), told);
    });
}

#[test]
fn a_socket_that_cannot_be_accepted_adds_no_visitor() {
    run(async {
        let (world, news) = world(5);
        let _ada = enter(&world, "ada").await.unwrap();
        room(&world).fill().await.unwrap();
        for who in ["ada", "grace"] {
            let refused = enter(&world, who).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
        }
        assert_eq!(here(&world).await, ["ada"]);
        let grace = || "grace".to_owned();
        let told = news.0.lock().unwrap().split_off(1);
        assert_eq!(told, [Change::Came(grace()), Change::Left(grace())]);
    });
}

#[test]
fn a_restart_removes_no_visitor_who_returns_in_time() {
    run(async {
        let (mut world, news) = world(100);
        let before = enter(&world, "ada").await.unwrap();
        world.node.settle().await.unwrap();
        world = world.killed();
        drop(before);
        world.advance(secs(10)).await;
        let _after = enter(&world, "ada").await.unwrap();
        world.advance(secs(15)).await;
        assert_eq!(here(&world).await, ["ada"]);
        assert_eq!(*news.0.lock().unwrap(), [Change::Came("ada".to_owned())]);
    });
}

#[test]
fn invalid_input_is_refused_and_changes_nothing() {
    run(async {
        let (world, news) = world(2);
        for who in [String::new(), "w".repeat(241)] {
            assert!(room(&world).beat(who.clone()).await.is_err());
            assert!(enter(&world, &who).await.is_err());
        }
        assert!(news.0.lock().unwrap().is_empty());
        for who in ["ada", "bob", "ada"] {
            room(&world).beat(who.to_owned()).await.unwrap();
        }
        assert!(room(&world).beat("eve".to_owned()).await.is_err());
        assert!(!room(&world).leave("eve".to_owned()).await.unwrap());
        assert!(room(&world).leave("bob".to_owned()).await.unwrap());
        room(&world).beat("eve".to_owned()).await.unwrap();
        assert_eq!(here(&world).await, ["ada", "eve"]);
        for (timeout, max) in [
            (millis(999), 1),
            (secs(3_601), 1),
            (secs(60), 0),
            (secs(60), MAX_PRESENT + 1),
            // It is open already.
            (secs(60), 1),
        ] {
            let refused = room(&world).open_with(timeout, max).await.unwrap();
            assert!(refused.is_some(), "{timeout:?} {max}");
        }
    });
}
