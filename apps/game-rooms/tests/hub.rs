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
use game_rooms::{ATTEMPTS, Codes, GameHub, HUB_BINDING, HubError, LIFETIME};

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
            .class::<GameHub>(HUB_BINDING, ClassOptions::default())
            .with(source)
            .clock(Arc::new(clock.clone()))
            .start()
            .unwrap();
        Self { clock, node, drawn }
    }

    fn hub(&self) -> Stub<GameHub> {
        self.node.env().object::<GameHub>().get_by_name("hub")
    }

    async fn add(&self, object: &str) -> Result<String, HubError> {
        let added = self.hub().add(object.to_owned()).await.unwrap();
        added.map(|room| room.room_code)
    }

    async fn find(&self, code: &str) -> Option<String> {
        let found = self.hub().find(code.to_owned()).await.unwrap().unwrap();
        found.map(|room| room.durable_object_id)
    }

    async fn end(self) {
        self.node.shutdown(Duration::from_secs(5)).await.unwrap();
        self.node.store().close().unwrap();
    }
}

#[tokio::test]
async fn a_code_that_is_taken_is_drawn_again() {
    let world = World::drawing(&["A2ZY", "A2ZY", "A2ZY", "Q7Q7"]);
    assert_eq!(world.add("first").await.unwrap(), "A2ZY");
    assert_eq!(world.add("second").await.unwrap(), "Q7Q7");
    assert_eq!(world.find("A2ZY").await.unwrap(), "first");
    assert_eq!(world.find("Q7Q7").await.unwrap(), "second");
    assert_eq!(world.find("ZZZZ").await, None);
    world.end().await;
}

#[tokio::test]
async fn after_five_attempts_without_a_free_code_there_is_an_error() {
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
async fn a_code_is_kept_for_a_day_and_is_free_again_then() {
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
async fn a_code_that_is_too_old_is_taken_though_nobody_has_asked_for_it_since() {
    let world = World::drawing(&["A2ZY"]);
    world.add("first").await.unwrap();
    world.clock.advance(LIFETIME);
    assert_eq!(world.add("second").await.unwrap(), "A2ZY");
    assert_eq!(world.find("A2ZY").await.unwrap(), "second");
    world.end().await;
}
