//! Components work on a node without a server.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, sync::Arc, time::Duration};

use abide::{
    Node,
    patterns::lock::Lock,
    queue::{Queue, QueueMessage},
    storage::{Store, StoreOptions},
    testing::{SimDisk, TestClock},
    workflow::Workflows,
};
use abide_lean::{Greeting, NOTES, Sent, Subscription, install};

const IN_A_MINUTE: i64 = TestClock::START_UNIX_MILLIS.cast_signed() + 60_000;

fn start(clock: &TestClock, sent: &Sent) -> Node {
    let disk = Arc::new(SimDisk::new());
    let store = Store::open(disk, Path::new("/data"), StoreOptions::small()).unwrap();
    let node = Node::builder(store).clock(Arc::new(clock.clone()));
    install(node, sent).start().unwrap()
}

async fn end(node: Node) {
    node.shutdown(Duration::from_secs(1)).await.unwrap();
    node.store().close().unwrap();
}

#[tokio::test]
async fn a_timer_writes_a_message_that_a_handler_delivers() {
    let (clock, sent) = (TestClock::new(), Sent::default());
    let node = start(&clock, &sent);
    let trial = node.env().object::<Subscription>().get_by_name("ada");
    trial.start_trial(IN_A_MINUTE).await.unwrap();
    node.settle().await.unwrap();
    assert_eq!(sent.all(), [""; 0]);
    clock.advance(Duration::from_mins(1));
    node.settle().await.unwrap();
    assert_eq!(sent.all(), ["The trial has ended."]);
    end(node).await;
}

#[tokio::test]
async fn a_queue_a_workflow_and_a_lock_are_installed_on_a_node() {
    let (clock, sent) = (TestClock::new(), Sent::default());
    let node = start(&clock, &sent);
    let env = node.env();

    let message = QueueMessage::new(&"Remember the milk.").unwrap();
    Queue::new(env, NOTES).unwrap().send(message).await.unwrap();
    node.settle().await.unwrap();
    assert_eq!(sent.all(), ["Remember the milk."]);

    let greetings = Workflows::<Greeting>::new(env);
    greetings.start("ada", &"Ada".to_owned()).await.unwrap();
    node.settle().await.unwrap();
    assert_eq!(sent.all()[1..], ["Hello, Ada."]);

    let lock = env.object::<Lock>().get_by_name("door");
    let minute = Duration::from_mins(1);
    let lease = lock.acquire("ada".to_owned(), minute).await.unwrap();
    assert!(lock.acquire("grace".to_owned(), minute).await.is_err());
    lock.release(lease.token).await.unwrap();
    end(node).await;
}
