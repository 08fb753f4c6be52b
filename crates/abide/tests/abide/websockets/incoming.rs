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
    support::{World, run},
    websockets::{
        gated,
        room::{Room, ask, closed_in_time, is_silent, lives, next, notes, open, room, world},
    },
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
fn a_socket_s_messages_start_in_order_and_one_may_wait() {
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
        let close = loop {
            match socket.poll_deliver(&mut cx, &mut waiting) {
                Poll::Ready(result) => break result.unwrap_err(),
                Poll::Pending => world.clock.advance(WEBSOCKET_DELIVERY_PATIENCE / 10),
            }
        };
        assert_eq!(close.code, code::TRY_AGAIN_LATER);
        drop(socket);
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
        let options = ClassOptions::default().max_queued(3);
        let world = World::new(|node| node.class::<Room>(options));
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
fn messages_waiting_at_a_reset_go_to_the_new_instance_in_order() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        let mut other = open(&world, "/").await;
        other.deliver("shut-then-fail").await.unwrap();
        for number in 0..20 {
            socket.deliver(format!("note {number}")).await.unwrap();
        }
        world.fence().await;
        let call = room(&world).sockets();
        world.fence().await;
        world.signals.give("fail");
        // A caller is told and may call again; messages would not be sent again.
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
        socket.deliver("note behind it").await.unwrap();
        let (close, after) = closed_in_time(&world, &socket).await;
        assert_eq!(close.code, code::INTERNAL_ERROR);
        assert!(after.abs_diff(WEBSOCKET_DELIVERY_PATIENCE) < Duration::from_secs(1));
        assert!(lives(&world) < 20, "{} lives", lives(&world));
        world.until(|node| node.stats().outstanding == 0).await;
    });
}

/// An object that sleeps with a socket, and what it will do when it is made next.
async fn asleep(notes: &[&str]) -> (World, Endpoint) {
    let world = gated::world();
    let socket = gated::open(&world).await;
    gated::sleep(&world).await;
    for note in notes {
        world.signals.note(*note);
    }
    (world, socket)
}

#[test]
fn a_failing_constructor_is_retried_with_growing_waits() {
    run(async {
        let (world, mut socket) = asleep(&["gate", "fail"]).await;
        socket.deliver("hello").await.unwrap();
        let (close, after) = closed_in_time(&world, &socket).await;
        assert_eq!(close.code, code::INTERNAL_ERROR);
        assert!(after >= WEBSOCKET_DELIVERY_PATIENCE);
        let lives = gated::count(&world, "new");
        assert!((5..20).contains(&lives), "{lives} lives");
    });
}

#[test]
fn messages_reach_an_object_in_order_that_could_not_be_made_for_a_while() {
    run(async {
        let (world, mut socket) = asleep(&["gate", "fail"]).await;
        socket.deliver("one").await.unwrap();
        world.until(|_| gated::count(&world, "new") >= 3).await;
        socket.deliver("two").await.unwrap();
        world.fence().await;
        world.signals.note("succeed");
        socket.deliver("three").await.unwrap();
        world.fence().await;
        assert!(is_silent(&socket));
        world.clock.advance(Duration::from_secs(1));
        for text in ["one", "two", "three"] {
            assert_eq!(next(&mut socket).await, text);
        }
    });
}

#[test]
fn an_object_that_aborts_in_its_constructor_does_not_stop_its_worker() {
    run(async {
        let (world, mut socket) = asleep(&["gate", "abort"]).await;
        socket.deliver("hello").await.unwrap();
        world.fence().await;
        assert!(gated::count(&world, "new") < 5);
        let (close, _) = closed_in_time(&world, &socket).await;
        assert_eq!(close.code, code::INTERNAL_ERROR);
    });
}

#[test]
fn a_message_handled_on_a_full_disk_does_not_stop_the_worker() {
    run(async {
        let (world, mut socket) = asleep(&["gate", "write"]).await;
        world.disk.set_capacity(Some(world.disk.used()));
        let filler = world.env().object::<gated::Gated>().get_by_name("filler");
        for number in 0.. {
            if filler.fill(number).await.is_err() {
                break;
            }
        }
        socket.deliver("hello").await.unwrap();
        world.fence().await;
        let (close, _) = closed_in_time(&world, &socket).await;
        assert_eq!(close.code, code::INTERNAL_ERROR);
    });
}

#[test]
fn a_message_interrupted_by_a_reset_closes_its_socket_with_1011() {
    run(async {
        let world = world();
        let mut ada = open(&world, "/").await;
        let mut bob = open(&world, "/").await;
        let mut eve = open(&world, "/").await;
        ada.deliver("wait limiter").await.unwrap();
        world.fence().await;
        bob.deliver("panic").await.unwrap();
        for socket in [&mut ada, &mut bob] {
            let Frame::Close(close) = socket.next_frame().await else {
                panic!("not closed");
            };
            assert_eq!(close.code, code::INTERNAL_ERROR);
        }
        // What comes before the peers have seen that is not handled, and others are not concerned.
        ada.deliver("note late").await.unwrap();
        assert_eq!(ask(&mut eve, "echo on").await, "on");
        assert_eq!(notes(&world), ["waiting limiter"]);
        assert!(is_silent(&eve));
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
