//! How sockets end.

use std::time::Duration;

use abide::{
    prelude::*,
    socket::{CloseFrame, Frame},
};

use crate::{
    support::run,
    websockets::{
        gated,
        room::{ask, is_silent, next, notes, open, room, world},
    },
};

#[test]
fn a_close_of_the_peer_reaches_the_object_with_its_code_and_reason() {
    run(async {
        let world = world();
        let socket = open(&world, "/").await;
        let _other = open(&world, "/").await;
        socket.end(CloseFrame {
            code: 4_001,
            reason: "enough".into(),
        });
        world
            .until(|_| notes(&world) == [r#"closed 4001 "enough" clean Closed, 1 left"#])
            .await;
    });
}

#[test]
fn a_connection_that_breaks_is_1006_and_not_clean() {
    run(async {
        let world = world();
        drop(open(&world, "/").await);
        world
            .until(|_| notes(&world) == [r#"closed 1006 "" not clean Closed, 0 left"#])
            .await;
    });
}

#[test]
fn an_error_comes_before_the_one_close() {
    run(async {
        let world = world();
        let socket = open(&world, "/").await;
        socket.fail(Error::new("not the protocol"));
        world.until(|_| notes(&world).len() == 2).await;
        world.fence().await;
        assert_eq!(
            notes(&world),
            [
                "error not the protocol",
                r#"closed 1006 "" not clean Closed, 0 left"#
            ]
        );
    });
}

#[test]
fn messages_that_came_before_the_close_are_handled_before_it() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        for number in 0..10 {
            socket.deliver(format!("note {number}")).await.unwrap();
        }
        drop(socket);
        world.until(|_| notes(&world).len() == 11).await;
        assert!(notes(&world)[10].starts_with("closed"));
    });
}

#[test]
fn an_object_closes_after_what_it_sent_and_sends_nothing_more() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        socket.deliver("echo last").await.unwrap();
        socket.deliver("close 3000 bye").await.unwrap();
        socket.deliver("note still heard").await.unwrap();
        assert_eq!(crate::websockets::room::next(&mut socket).await, "last");
        let Frame::Close(close) = socket.next_frame().await else {
            panic!("not closed");
        };
        assert_eq!((close.code, &*close.reason), (3_000, "bye"));
        world.fence().await;
        assert_eq!(
            notes(&world),
            [
                "Closing",
                "the WebSocket is closed, so nothing can be sent on it",
                "still heard"
            ]
        );
        assert_eq!(room(&world).sockets().await.unwrap(), 1);
        socket.end(close);
        world.until(|_| notes(&world).len() == 4).await;
        assert_eq!(
            notes(&world)[3],
            r#"closed 3000 "bye" clean Closed, 0 left"#
        );
    });
}

#[test]
fn codes_that_must_not_be_sent_and_long_reasons_are_refused() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        for code in [999, 1004, 1005, 1006, 1015, 2999, 5000] {
            let told = ask(&mut socket, &format!("close {code}")).await;
            assert!(told.contains(&format!("code {code}")), "{told}");
        }
        let told = ask(&mut socket, &format!("close 1000 {}", "x".repeat(124))).await;
        assert!(told.contains("the limit is 123"), "{told}");
        assert_eq!(ask(&mut socket, "state").await, "Open");
    });
}

#[test]
fn a_close_in_a_turn_that_fails_is_taken_back() {
    run(async {
        let world = world();
        let mut ada = open(&world, "/").await;
        let mut bob = open(&world, "/").await;
        bob.deliver("close-all-then-panic").await.unwrap();
        world.until(|node| node.stats().panics == 1).await;
        assert_eq!(ask(&mut ada, "state").await, "Open");
        assert!(is_silent(&ada));
    });
}

#[test]
fn a_close_after_an_undone_close_is_sent() {
    run(async {
        let world = world();
        let mut ada = open(&world, "/").await;
        let mut bob = open(&world, "/").await;
        world.disk.hold_syncs();
        ada.deliver("put 1").await.unwrap();
        bob.deliver("close-all-then-panic").await.unwrap();
        world.until(|node| node.stats().panics == 1).await;
        ada.deliver("close 3000 bye").await.unwrap();
        world.fence().await;
        world.disk.release_syncs();
        assert_eq!(next(&mut ada).await, "put 1");
        let Frame::Close(close) = ada.next_frame().await else {
            panic!("not closed");
        };
        assert_eq!(close.code, 3_000);
    });
}

#[test]
fn the_close_event_reaches_an_object_that_could_not_start_at_first() {
    run(async {
        let world = gated::world();
        let socket = gated::open(&world).await;
        gated::sleep(&world).await;
        world.signals.note("refuse");
        drop(socket);
        world.until(|_| gated::count(&world, "new") >= 3).await;
        assert_eq!(gated::count(&world, "closed"), 0);
        world.signals.note("take");
        for _ in 0..3 {
            world.clock.advance(Duration::from_secs(1));
            world.fence().await;
        }
        assert_eq!(gated::count(&world, "closed"), 1);
        assert_eq!(gated::object(&world).sockets().await.unwrap(), 0);
    });
}
