//! Responses without the object.

use std::time::Duration;

use abide::{RequestResponsePair, clock::TestClock};

use crate::{
    support::run,
    websockets::room::{ask, is_silent, lives, next, open, world},
};

#[test]
fn an_auto_response_does_not_wake_the_object_and_leaves_its_timestamp() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        socket.deliver("auto ping=pong").await.unwrap();
        assert_eq!(ask(&mut socket, "auto?").await, "true None");
        world.clock.advance(Duration::from_secs(11));
        world.until(|node| node.stats().evicted == 1).await;
        assert_eq!(ask(&mut socket, "ping").await, "pong");
        assert_eq!(lives(&world), 1);

        assert_eq!(ask(&mut socket, "echo ping").await, "ping");
        assert_eq!(lives(&world), 2);
        let millis = TestClock::START_UNIX_MILLIS + 11_000;
        assert_eq!(
            ask(&mut socket, "auto?").await,
            format!("true Some(Timestamp({millis}))")
        );
        socket.deliver("no-auto").await.unwrap();
        assert!(ask(&mut socket, "auto?").await.starts_with("false"));
        socket.deliver("ping").await.unwrap();
        world.fence().await;
        assert!(is_silent(&socket));
    });
}

#[test]
fn an_auto_response_takes_effect_when_what_was_written_before_is_durable() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        world.disk.hold_syncs();
        socket.deliver("put secret").await.unwrap();
        socket.deliver("auto ping=secret").await.unwrap();
        world.fence().await;
        socket.deliver("ping").await.unwrap();
        world.fence().await;
        assert!(is_silent(&socket));
        world.disk.release_syncs();
        assert_eq!(next(&mut socket).await, "put secret");
        // Its answer leaves after the auto-response has passed the gate.
        assert!(ask(&mut socket, "auto?").await.starts_with("true"));
        assert_eq!(ask(&mut socket, "ping").await, "secret");
    });
}

#[test]
fn an_auto_response_on_its_way_is_not_undone_by_a_later_turn_that_fails() {
    run(async {
        let world = world();
        let mut ada = open(&world, "/").await;
        let mut bob = open(&world, "/").await;
        world.disk.hold_syncs();
        ada.deliver("put 1").await.unwrap();
        ada.deliver("auto ping=pong").await.unwrap();
        bob.deliver("auto-then-panic ping").await.unwrap();
        world.until(|node| node.stats().panics == 1).await;
        world.disk.release_syncs();
        assert_eq!(next(&mut ada).await, "put 1");
        assert!(ask(&mut ada, "auto?").await.starts_with("true"));
        assert_eq!(ask(&mut ada, "ping").await, "pong");
    });
}

#[test]
fn each_side_of_a_pair_has_at_most_2048_bytes() {
    let long = "x".repeat(2_048);
    assert!(RequestResponsePair::new(&long, &long).is_ok());
    let error = RequestResponsePair::new(&(long.clone() + "x"), "").unwrap_err();
    assert!(error.message().contains("request"), "{error}");
    let error = RequestResponsePair::new("", &(long + "x")).unwrap_err();
    assert!(error.message().contains("response"), "{error}");
}
