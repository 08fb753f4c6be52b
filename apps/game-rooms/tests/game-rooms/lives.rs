//! How long rooms and places last, on a clock that the test moves.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{sync::Arc, time::Duration};

use crate::support::{Player, Room, make};
use abide::{Host, clock::TestClock, server::RunningHost, storage::SimDisk};
use abide_harness::{Client, Version, until};
use game_rooms::{
    Codes, GameRoom, Limits, install,
    limits::{EMPTY_MINUTES, LIFETIME, PLACE_KEPT},
};

const MINUTE: Duration = Duration::from_mins(1);

/// A machine with a disk that survives its host.
#[derive(Default)]
struct World {
    clock: TestClock,
    disk: Arc<SimDisk>,
}

impl World {
    async fn start(&self, limits: Limits) -> Running {
        let host = Host::open_in_memory()
            .disk(self.disk.clone())
            .clock(Arc::new(self.clock.clone()));
        let host = install(host, limits, Codes::default());
        Running(host.start().await.unwrap())
    }
}

struct Running(RunningHost);

impl Running {
    fn address(&self) -> String {
        self.0.addr().to_string()
    }

    fn client(&self) -> Client {
        Client::new(&self.address(), Version::Http1)
    }

    async fn exists(&self, room: &Room) -> bool {
        let found = self.client().get(&format!("/rooms/{}", room.code)).await;
        found.status == 200
    }

    /// Nothing of the room is left, and nothing comes back.
    async fn until_gone(&self, room: &Room) {
        until("the room to end", async || {
            (!self.exists(room).await).then_some(())
        })
        .await;
        let mut late = Player::host(&self.address(), room).await;
        assert_eq!(late.closed().await.0, 4_004);
        let mut late = Player::peer(&self.address(), room, 1).await;
        let (code, reason) = late.closed().await;
        assert_eq!(code, 4_004);
        assert!(reason.contains("10 minutes"), "{reason}");
    }

    async fn end(self) {
        self.0.shutdown().await.unwrap();
    }
}

fn empty_life() -> Duration {
    MINUTE * EMPTY_MINUTES
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_whose_screen_stays_away_ends_and_gives_its_code_back() {
    let world = World::default();
    let limits = Limits {
        rooms_per_client: 1,
        ..Limits::default()
    };
    let host = world.start(limits).await;
    let room = make(&host.client()).await;
    let screen = Player::host(&host.address(), &room).await;
    let mut phone = Player::peer(&host.address(), &room, 1).await;
    phone.sees(true, &[1]).await;
    // The screen is here, so the room outlasts the time.
    for _ in 0..3 {
        world.clock.advance(empty_life());
        host.0.settle().await.unwrap();
    }
    assert!(host.exists(&room).await);
    screen.leave().await;
    phone.sees(false, &[1]).await;
    world.clock.advance(empty_life().saturating_sub(MINUTE));
    host.0.settle().await.unwrap();
    assert!(host.exists(&room).await, "it has a minute left");
    world.clock.advance(MINUTE);
    assert_eq!(phone.closed().await.0, 4_004);
    host.until_gone(&room).await;
    // The client has its place back.
    make(&host.client()).await;
    host.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_that_was_never_made_refuses_and_stores_nothing() {
    let world = World::default();
    let host = world.start(Limits::default()).await;
    let rooms = host.0.env().object::<GameRoom>();
    for role in ["host", "peer"] {
        let id = rooms.unique_id().to_string();
        let mut lost = Player::enter(&host.address(), &id, role, &"7".repeat(32)).await;
        assert_eq!(lost.closed().await.0, 4_004);
    }
    assert_eq!(rooms.untyped().written().unwrap(), []);
    host.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_that_no_screen_enters_ends() {
    let world = World::default();
    let host = world.start(Limits::default()).await;
    let room = make(&host.client()).await;
    world.clock.advance(empty_life());
    host.until_gone(&room).await;
    host.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn screen_that_returns_in_time_keeps_its_room() {
    let world = World::default();
    let host = world.start(Limits::default()).await;
    let room = make(&host.client()).await;
    for _ in 0..3 {
        let mut screen = Player::host(&host.address(), &room).await;
        screen.sees(true, &[]).await;
        drop(screen);
        world.clock.advance(empty_life().saturating_sub(MINUTE));
        host.0.settle().await.unwrap();
        assert!(host.exists(&room).await);
    }
    host.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_in_which_the_server_was_down_ends_no_room() {
    let world = World::default();
    let host = world.start(Limits::default()).await;
    let room = make(&host.client()).await;
    let mut screen = Player::host(&host.address(), &room).await;
    screen.sees(true, &[]).await;
    drop(screen);
    host.end().await;
    world.clock.advance(empty_life() * 6);
    let host = world.start(Limits::default()).await;
    host.0.settle().await.unwrap();
    assert!(host.exists(&room).await);
    let mut screen = Player::host(&host.address(), &room).await;
    screen.sees(true, &[]).await;
    let mut phone = Player::peer(&host.address(), &room, 1).await;
    phone.sees(true, &[1]).await;
    drop(screen);
    phone.sees(false, &[1]).await;
    // If it stays away now, the room ends.
    world.clock.advance(empty_life());
    assert_eq!(phone.closed().await.0, 4_004);
    host.until_gone(&room).await;
    host.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_ends_after_a_day_though_its_screen_is_here() {
    let world = World::default();
    let host = world.start(Limits::default()).await;
    let room = make(&host.client()).await;
    let mut screen = Player::host(&host.address(), &room).await;
    screen.sees(true, &[]).await;
    world.clock.advance(LIFETIME.saturating_sub(MINUTE));
    host.0.settle().await.unwrap();
    assert!(host.exists(&room).await);
    world.clock.advance(MINUTE);
    assert_eq!(screen.closed().await.0, 4_004);
    host.until_gone(&room).await;
    host.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_room_refuses_until_a_player_has_been_away_for_long() {
    let world = World::default();
    let limits = Limits {
        players: 2,
        ..Limits::default()
    };
    let host = world.start(limits).await;
    let (client, address) = (host.client(), host.address());
    let room = make(&client).await;
    let mut screen = Player::host(&address, &room).await;
    let mut first = Player::peer(&address, &room, 1).await;
    let second = Player::peer(&address, &room, 2).await;
    first.sees(true, &[1, 2]).await;
    let full = async || {
        let (code, reason) = Player::peer(&address, &room, 3).await.closed().await;
        assert_eq!(code, 4_000);
        assert!(reason.contains("All 2 places are taken"), "{reason}");
    };
    full().await;
    // The place of a player who is away is kept.
    drop(second);
    screen.sees(true, &[1]).await;
    full().await;
    world
        .clock
        .advance(PLACE_KEPT.saturating_sub(Duration::from_millis(1)));
    full().await;
    world.clock.advance(Duration::from_millis(2));
    let mut third = Player::peer(&address, &room, 3).await;
    assert_eq!(
        third.number().await,
        3,
        "the numbers of others are not used again"
    );
    // The player who is here has kept the place, the one who was away has not.
    let mut second = Player::peer(&address, &room, 2).await;
    assert_eq!(second.closed().await.0, 4_000);
    let mut again = Player::peer(&address, &room, 1).await;
    assert_eq!(again.number().await, 1);
    for socket in [screen, first, third, again] {
        socket.leave().await;
    }
    host.end().await;
}
