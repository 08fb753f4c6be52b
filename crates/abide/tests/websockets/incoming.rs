//! What a peer sends: in order, never too much at once, never lost silently.

use std::{
    task::{Context, Poll, Waker},
    time::Duration,
};

use abide::{
    limits::{MAX_WEBSOCKET_IN_FLIGHT, WEBSOCKET_DELIVERY_PATIENCE},
    prelude::*,
    socket::{Endpoint, Frame, code},
};

use crate::{
    room::{Room, ask, lives, next, notes, open, room, world},
    support::{World, run},
};

/// Tries to deliver once.
fn delivered(socket: &mut Endpoint, message: &str) -> bool {
    let mut waiting = Some(message.into());
    let mut cx = Context::from_waker(Waker::noop());
    matches!(
        socket.poll_deliver(&mut cx, &mut waiting),
        Poll::Ready(Ok(()))
    )
}

#[test]
fn messages_of_one_socket_start_in_order_and_one_may_wait_while_others_run() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        socket.deliver("wait slow").await.unwrap();
        for number in 0..20 {
            socket.deliver(format!("note {number}")).await.unwrap();
        }
        assert_eq!(ask(&mut socket, "echo done").await, "done");
        world.signals.give("slow");
        assert_eq!(next(&mut socket).await, "slow");
        let mut expected = vec!["waiting slow".to_owned()];
        expected.extend((0..20).map(|number| number.to_string()));
        expected.push("waited slow".to_owned());
        assert_eq!(notes(&world), expected);
    });
}

#[test]
fn a_socket_is_not_read_while_too_many_of_its_messages_are_in_flight() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        let mut other = open(&world, "/").await;
        for _ in 0..MAX_WEBSOCKET_IN_FLIGHT {
            assert!(delivered(&mut socket, "wait turn"));
        }
        assert!(!delivered(&mut socket, "wait turn"));
        assert_eq!(ask(&mut other, "echo free").await, "free");
        world.signals.give("turn");
        assert_eq!(next(&mut socket).await, "turn");
        socket.deliver("echo room again").await.unwrap();
        assert_eq!(next(&mut socket).await, "room again");
    });
}

#[test]
fn a_message_that_waits_too_long_closes_its_socket_with_1013() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        for _ in 0..MAX_WEBSOCKET_IN_FLIGHT {
            socket.deliver("wait turn").await.unwrap();
        }
        let mut waiting = Some("note never".into());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(socket.poll_deliver(&mut cx, &mut waiting).is_pending());
        world.clock.advance(WEBSOCKET_DELIVERY_PATIENCE);
        let Poll::Ready(Err(close)) = socket.poll_deliver(&mut cx, &mut waiting) else {
            panic!("it waits on");
        };
        drop(socket);
        assert_eq!(close.code, code::TRY_AGAIN_LATER);
        world
            .until(|_| {
                notes(&world)
                    .iter()
                    .any(|note| note.starts_with("closed 1006"))
            })
            .await;
        assert!(!notes(&world).contains(&"never".to_owned()));
    });
}

#[test]
fn messages_wait_at_a_closed_gate_beyond_the_queue_of_calls() {
    run(async {
        let options = ClassOptions {
            max_queued: 3,
            ..ClassOptions::default()
        };
        let world = World::new(|node| node.class::<Room>("ROOM", options));
        let mut socket = open(&world, "/").await;
        socket.deliver("shut").await.unwrap();
        for number in 0..20 {
            socket.deliver(format!("note {number}")).await.unwrap();
        }
        world.fence().await;
        let error = room(&world).sockets().await.unwrap_err();
        assert!(error.overloaded(), "{error}");
        assert!(notes(&world).is_empty());
        world.signals.give("open");
        let expected: Vec<_> = (0..20).map(|number| number.to_string()).collect();
        world.until(|_| notes(&world).len() == 20).await;
        assert_eq!(notes(&world), expected);
    });
}

#[test]
fn messages_that_waited_when_the_object_was_reset_go_to_its_next_life_in_order() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        socket.deliver("shut-then-fail").await.unwrap();
        for number in 0..20 {
            socket.deliver(format!("note {number}")).await.unwrap();
        }
        world.fence().await;
        let call = room(&world).sockets();
        world.fence().await;
        world.signals.give("fail");
        // A caller is told and may call again; nobody would send the messages again.
        assert!(call.await.unwrap_err().retryable());
        assert_eq!(ask(&mut socket, "echo on").await, "on");
        let expected: Vec<_> = (0..20).map(|number| number.to_string()).collect();
        assert_eq!(notes(&world), expected);
        assert_eq!(lives(&world), 2);
    });
}

#[test]
fn a_socket_whose_object_cannot_start_is_closed_with_1011() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        world.fence().await;
        world.clock.advance(Duration::from_secs(11));
        world.until(|node| node.stats().evicted == 1).await;
        world.signals.note("refuse");
        socket.deliver("note lost").await.unwrap();
        let Frame::Close(close) = socket.next_frame().await else {
            panic!("not closed");
        };
        assert_eq!(close.code, code::INTERNAL_ERROR);
    });
}

#[test]
fn an_error_of_a_handler_leaves_the_socket_open() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        socket.deliver("fail").await.unwrap();
        assert_eq!(ask(&mut socket, "echo on").await, "on");
        assert_eq!(world.node.stats().errors, 1);
    });
}

#[test]
fn what_is_in_flight_is_waited_for_when_the_node_stops() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        socket.deliver("wait end").await.unwrap();
        world.fence().await;
        let node = world.node.clone();
        let stopping = tokio::spawn(async move { node.shutdown(Duration::from_secs(10)).await });
        world.signals.give("end");
        stopping.await.unwrap().unwrap();
        assert!(notes(&world).contains(&"waited end".to_owned()));
        assert_eq!(next(&mut socket).await, "end");
    });
}
