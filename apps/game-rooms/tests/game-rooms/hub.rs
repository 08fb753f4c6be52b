//! The hub's codes, with a clock that the test moves and codes that it chooses.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::{
    ClassOptions, Node, Stub,
    clock::TestClock,
    storage::{SimDisk, Store, StoreOptions},
};
use game_rooms::{
    Codes, GameHub, HubError, Limits,
    limits::{ATTEMPTS, LIFETIME, RESERVED},
};

struct World {
    clock: TestClock,
    node: Node,
    /// Codes that were drawn.
    drawn: Arc<AtomicUsize>,
}

impl World {
    /// A hub that draws these codes, one after the other, and then the last again and again.
    fn drawing(codes: &'static [&'static str]) -> Self {
        let (clock, drawn) = (TestClock::new(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&drawn);
        let source = Codes::new(move || {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            codes[number.min(codes.len() - 1)].parse().unwrap()
        });
        let disk = Arc::new(SimDisk::new());
        let store = Store::open(disk, Path::new("/data"), StoreOptions::small()).unwrap();
        let node = Node::builder(store)
            .class::<GameHub>(ClassOptions::default())
            .with(source)
            .with(Limits {
                rooms_per_client: 2,
                ..Limits::default()
            })
            .clock(Arc::new(clock.clone()))
            .start()
            .unwrap();
        Self { clock, node, drawn }
    }

    fn hub(&self) -> Stub<GameHub> {
        self.node.env().object::<GameHub>().get_by_name("hub")
    }

    /// A code for a room, of a client that has no other.
    async fn add(&self, object: &str) -> Result<String, HubError> {
        self.add_of(object, object).await
    }

    async fn add_of(&self, client: &str, object: &str) -> Result<String, HubError> {
        let code = self.reserve(client, object).await?;
        let hub = self.hub();
        assert!(hub.keep(code.clone(), object.into()).await.unwrap());
        Ok(code)
    }

    async fn reserve(&self, client: &str, object: &str) -> Result<String, HubError> {
        let hub = self.hub();
        let reserved = hub.reserve(object.to_owned(), client.to_owned()).await;
        reserved.map(|room| room.room_code)
    }

    async fn find(&self, code: &str) -> Option<String> {
        let found = self.hub().find(code.to_owned()).await.unwrap();
        found.map(|room| room.durable_object_id)
    }

    async fn end(self) {
        self.node.shutdown(Duration::from_secs(5)).await.unwrap();
        self.node.store().close().unwrap();
    }
}

#[tokio::test]
async fn taken_code_is_drawn_again() {
    let world = World::drawing(&["A2ZY", "A2ZY", "A2ZY", "Q7Q7"]);
    assert_eq!(world.add("first").await.unwrap(), "A2ZY");
    assert_eq!(world.add("second").await.unwrap(), "Q7Q7");
    assert_eq!(world.find("A2ZY").await.unwrap(), "first");
    assert_eq!(world.find("Q7Q7").await.unwrap(), "second");
    assert_eq!(world.find("ZZZZ").await, None);
    world.end().await;
}

#[tokio::test]
async fn five_attempts_without_a_free_code_are_an_error() {
    let world = World::drawing(&["A2ZY"]);
    world.add("first").await.unwrap();
    assert!(matches!(
        world.add("second").await,
        Err(HubError::NoFreeCode)
    ));
    assert_eq!(world.drawn.load(Ordering::Relaxed), 1 + ATTEMPTS);
    assert_eq!(world.find("A2ZY").await.unwrap(), "first");
    world.end().await;
}

#[tokio::test]
async fn code_is_kept_for_a_day_and_then_free_again() {
    let world = World::drawing(&["A2ZY", "Q7Q7", "A2ZY"]);
    world.add("first").await.unwrap();
    let almost = LIFETIME.checked_sub(Duration::from_millis(1)).unwrap();
    world.clock.advance(almost);
    assert_eq!(world.find("A2ZY").await.unwrap(), "first");
    world.add("other").await.unwrap();
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(world.find("A2ZY").await, None);
    assert_eq!(world.add("second").await.unwrap(), "A2ZY");
    assert_eq!(world.find("A2ZY").await.unwrap(), "second");
    assert_eq!(world.find("Q7Q7").await.unwrap(), "other");
    world.end().await;
}

#[tokio::test]
async fn expired_code_is_reused_even_if_it_was_never_looked_up() {
    let world = World::drawing(&["A2ZY"]);
    world.add("first").await.unwrap();
    world.clock.advance(LIFETIME);
    assert_eq!(world.add("second").await.unwrap(), "A2ZY");
    assert_eq!(world.find("A2ZY").await.unwrap(), "second");
    world.end().await;
}

#[tokio::test]
async fn reserved_code_is_free_again_after_a_minute_without_a_room() {
    let world = World::drawing(&["A2ZY"]);
    assert_eq!(world.reserve("ada", "first").await.unwrap(), "A2ZY");
    world.clock.advance(RESERVED);
    assert_eq!(world.find("A2ZY").await, None);
    let kept = world.hub().keep("A2ZY".into(), "first".into()).await;
    assert!(!kept.unwrap(), "the reservation has expired");
    assert_eq!(world.add("second").await.unwrap(), "A2ZY");
    world.end().await;
}

#[tokio::test]
async fn client_at_its_limit_gets_no_room_until_one_ends() {
    let world = World::drawing(&["A222", "A333", "A444", "A555"]);
    world.add_of("ada", "first").await.unwrap();
    world.add_of("ada", "second").await.unwrap();
    assert!(matches!(
        world.reserve("ada", "third").await,
        Err(HubError::TooManyRooms { most: 2, .. })
    ));
    world.add_of("grace", "other").await.unwrap();
    // A room that has another's code takes nothing from it.
    let hub = world.hub();
    let forget = async |object: &str| hub.forget("A222".into(), object.into()).await.unwrap();
    forget("second").await;
    assert_eq!(world.find("A222").await.unwrap(), "first");
    forget("first").await;
    assert_eq!(world.find("A222").await, None);
    world.add_of("ada", "third").await.unwrap();
    world.end().await;
}
