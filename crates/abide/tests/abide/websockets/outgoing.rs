//! What an object sends: when it leaves, in what order, and what a slow reader brings about.

use abide::{
    NodeBuilder,
    limits::{
        MAX_GATED_PER_OBJECT, WEBSOCKET_BURST_PATIENCE, WEBSOCKET_FRAME_OVERHEAD,
        WEBSOCKET_SEND_BUFFER,
    },
    prelude::*,
    socket::{Frame, SlowReader, WebSocketOptions, code},
    storage::SimDisk,
};

use crate::{
    support::{World, run},
    websockets::{
        gated,
        room::{Room, ask, is_silent, next, notes, open, world},
    },
};

#[test]
fn a_frame_waits_until_the_write_before_it_is_durable() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        world.disk.hold_syncs();
        socket.deliver("put 1").await.unwrap();
        world.fence().await;
        assert!(is_silent(&socket));
        world.disk.release_syncs();
        assert_eq!(next(&mut socket).await, "put 1");
    });
}

#[test]
fn a_frame_in_the_turn_that_accepts_its_socket_waits_too() {
    run(async {
        let world = world();
        world.disk.hold_syncs();
        let opening = tokio::spawn({
            let room = crate::websockets::room::room(&world);
            async move {
                room.fetch(crate::websockets::room::request("/?greet"))
                    .await
            }
        });
        world.until(|node| node.stats().held == 2).await;
        world.disk.release_syncs();
        let response = opening.await.unwrap().unwrap();
        let mut socket = crate::websockets::room::client_of(response)
            .claim()
            .unwrap();
        assert_eq!(next(&mut socket).await, "welcome");
    });
}

#[test]
fn frames_leave_in_order_whether_or_not_they_wait() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        for number in 0..500 {
            let verb = if number % 3 == 0 { "put" } else { "echo" };
            socket.deliver(format!("{verb} {number}")).await.unwrap();
        }
        for number in 0..500 {
            let said = next(&mut socket).await;
            assert_eq!(said.trim_start_matches("put "), number.to_string());
        }
    });
}

#[test]
fn a_power_failure_undoes_no_write_that_a_frame_announced() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        assert_eq!(ask(&mut socket, "put 41").await, "put 41");
        let disk: SimDisk = world.disk.crash(7);
        let world = World::on(disk, 1, |node| node.class::<Room>(ClassOptions::default()));
        let mut socket = open(&world, "/").await;
        assert_eq!(ask(&mut socket, "get").await, "41");
    });
}

#[test]
fn when_the_log_fails_held_frames_are_dropped_with_close_1012() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        world.disk.hold_syncs();
        socket.deliver("put 1").await.unwrap();
        world.fence().await;
        world.disk.fail_syncs(true);
        world.disk.release_syncs();
        let Frame::Close(close) = socket.next_frame().await else {
            panic!("the frame left");
        };
        assert_eq!(close.code, code::SERVICE_RESTART);
    });
}

#[test]
fn a_broadcast_shares_the_bytes_of_its_message() {
    run(async {
        let world = world();
        let mut sockets = Vec::new();
        for _ in 0..3 {
            sockets.push(open(&world, "/").await);
        }
        sockets[0].deliver("all hands").await.unwrap();
        let mut places = Vec::new();
        let mut kept = Vec::new();
        for socket in &mut sockets {
            let Frame::Message(message) = socket.next_frame().await else {
                panic!("no message");
            };
            assert_eq!(message.as_text(), Some("hands"));
            places.push(message.as_bytes().as_ptr());
            kept.push(message);
        }
        assert!(places.iter().all(|place| *place == places[0]));
    });
}

/// A node whose sockets have room for ten messages of `flood`, and for a burst of 160.
fn narrow(slow_reader: SlowReader) -> World {
    World::new(|node: NodeBuilder| {
        node.class::<Room>(ClassOptions::default()).websockets(
            WebSocketOptions::default()
                .send_buffer_bytes(10 * (1_000 + WEBSOCKET_FRAME_OVERHEAD))
                .slow_reader(slow_reader),
        )
    })
}

#[test]
fn a_reader_that_stays_behind_is_closed_with_1013() {
    run(async {
        let world = narrow(SlowReader::Close);
        let mut socket = open(&world, "/").await;
        socket.deliver("flood 11").await.unwrap();
        world.fence().await;
        world.clock.advance(WEBSOCKET_BURST_PATIENCE);
        assert_eq!(world.node.stats().slow_readers, 0);
        socket.deliver("flood 1").await.unwrap();
        world.fence().await;
        assert_eq!(world.node.stats().slow_readers, 1);
        let Frame::Close(close) = socket.next_frame().await else {
            panic!("not closed");
        };
        assert_eq!(close.code, code::TRY_AGAIN_LATER);
        assert!(is_silent(&socket));
        socket.end(close);
        world
            .until(|_| {
                notes(&world).last().is_some_and(|note| {
                    note.starts_with("closed 1013") && note.ends_with("clean Closed, 0 left")
                })
            })
            .await;
    });
}

#[test]
fn a_reader_that_catches_up_in_time_is_not_slow() {
    run(async {
        let world = narrow(SlowReader::Close);
        let mut socket = open(&world, "/").await;
        for _ in 0..3 {
            socket.deliver("flood 160").await.unwrap();
            world.fence().await;
            world.clock.advance(WEBSOCKET_BURST_PATIENCE);
            for number in 0..160 {
                assert_eq!(next(&mut socket).await, format!("{number:0>1000}"));
            }
        }
        assert_eq!(world.node.stats().slow_readers, 0);
    });
}

#[test]
fn a_reader_is_closed_at_once_when_a_burst_is_too_long() {
    run(async {
        let world = narrow(SlowReader::Close);
        let mut socket = open(&world, "/").await;
        socket.deliver("flood 200").await.unwrap();
        world.fence().await;
        let Frame::Close(close) = socket.next_frame().await else {
            panic!("not closed");
        };
        assert_eq!(close.code, code::TRY_AGAIN_LATER);
    });
}

#[test]
fn a_turn_may_send_more_than_the_send_buffer_has_room_for() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        let long = "x".repeat(WEBSOCKET_SEND_BUFFER + 500_000);
        socket.deliver(format!("echo {long}")).await.unwrap();
        socket.deliver("echo done").await.unwrap();
        world.fence().await;
        assert_eq!(next(&mut socket).await.len(), long.len());
        assert_eq!(next(&mut socket).await, "done");
    });
}

#[test]
fn answers_that_a_slow_disk_held_back_reach_their_reader() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        world.disk.hold_syncs();
        let text = "x".repeat(WEBSOCKET_SEND_BUFFER / 50);
        for _ in 0..60 {
            socket.deliver(format!("put {text}")).await.unwrap();
        }
        world.fence().await;
        world.disk.release_syncs();
        for _ in 0..60 {
            assert!(next(&mut socket).await.starts_with("put "));
        }
    });
}

#[test]
fn what_an_object_has_at_its_output_gate_is_bounded() {
    run(async {
        let world = gated::world();
        let mut socket = gated::open(&world).await;
        world.disk.hold_syncs();
        socket.deliver("put").await.unwrap();
        for _ in 0..3 {
            socket.deliver("many").await.unwrap();
        }
        world.fence().await;
        // Messages of one mebibyte, and the answers to the four events.
        let held = usize::try_from(world.node.stats().held).unwrap();
        assert!(held <= MAX_GATED_PER_OBJECT / (1 << 20) + 4, "{held}");
        assert_eq!(gated::count(&world, "refused as overloaded"), 3);
        world.disk.release_syncs();
        world.until(|node| node.stats().held == 0).await;
        socket.deliver("after").await.unwrap();
        world.fence().await;
        assert_eq!(gated::count(&world, "refused as overloaded"), 3);
    });
}

#[test]
fn a_slow_reader_may_miss_messages_instead() {
    run(async {
        let world = narrow(SlowReader::DropNewest);
        let mut socket = open(&world, "/").await;
        socket.deliver("flood 11").await.unwrap();
        world.fence().await;
        world.clock.advance(WEBSOCKET_BURST_PATIENCE);
        socket.deliver("flood 3").await.unwrap();
        world.fence().await;
        assert_eq!(world.node.stats().slow_readers, 3);
        for number in 0..11 {
            assert_eq!(next(&mut socket).await, format!("{number:0>1000}"));
        }
        assert!(is_silent(&socket));
        assert_eq!(ask(&mut socket, "echo on").await, "on");
    });
}

#[test]
fn a_single_message_fits_however_long_it_is() {
    run(async {
        let world = narrow(SlowReader::Close);
        let mut socket = open(&world, "/").await;
        let long = "x".repeat(1 << 20);
        assert_eq!(ask(&mut socket, &format!("echo {long}")).await, long);
    });
}
