//! What outlives the object in memory.

use std::time::Duration;

use crate::{
    support::{World, run},
    websockets::room::{ask, is_silent, lives, next, notes, open, room, world},
};

/// Lets the object leave memory.
async fn sleep(world: &World) {
    let before = world.node.stats().evicted;
    world.fence().await;
    world.clock.advance(Duration::from_secs(11));
    world.until(|node| node.stats().evicted == before + 1).await;
}

#[test]
fn an_object_with_idle_sockets_leaves_memory_and_a_frame_wakes_it() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/red").await;
        ask(&mut socket, "echo before").await;
        sleep(&world).await;
        assert_eq!(world.node.stats().sockets_open, 1);
        assert_eq!(lives(&world), 1);
        assert_eq!(ask(&mut socket, "echo after").await, "after");
        assert_eq!(lives(&world), 2);
    });
}

#[test]
fn tags_attachments_and_the_order_of_sockets_outlive_an_eviction() {
    run(async {
        let world = world();
        let mut red = open(&world, "/red").await;
        let mut blue = open(&world, "/blue").await;
        red.deliver("attach ada").await.unwrap();
        blue.deliver("attach bob").await.unwrap();
        let ids = room(&world).ids().await.unwrap();
        sleep(&world).await;
        assert_eq!(
            ask(&mut red, "attached").await,
            r#"Some(Member { name: "ada", messages: 7 })"#
        );
        assert!(ask(&mut blue, "attached").await.contains("bob"));
        assert_eq!(ask(&mut blue, "tags").await, "blue");
        assert_eq!(ask(&mut blue, "tagged red").await, "1");
        assert_eq!(room(&world).ids().await.unwrap(), ids);
    });
}

#[test]
fn a_broadcast_of_an_object_that_was_asleep_reaches_every_socket() {
    run(async {
        let world = world();
        let mut sockets = Vec::new();
        for _ in 0..5 {
            sockets.push(open(&world, "/").await);
        }
        sleep(&world).await;
        room(&world).say("wake up".to_owned()).await.unwrap();
        for socket in &mut sockets {
            assert_eq!(next(socket).await, "wake up");
        }
    });
}

#[test]
fn the_end_of_a_socket_wakes_the_object() {
    run(async {
        let world = world();
        let socket = open(&world, "/").await;
        sleep(&world).await;
        drop(socket);
        world
            .until(|_| notes(&world) == [r#"closed 1006 "" not clean Closed, 0 left"#])
            .await;
        assert_eq!(lives(&world), 2);
    });
}

#[test]
fn a_reset_keeps_sockets_tags_and_attachments() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/red").await;
        let mut other = open(&world, "/").await;
        socket.deliver("attach ada").await.unwrap();
        other.deliver("put-then-panic 1").await.unwrap();
        world.until(|node| node.stats().panics == 1).await;
        assert_eq!(ask(&mut socket, "get").await, "", "the turn was undone");
        assert!(ask(&mut socket, "attached").await.contains("ada"));
        assert_eq!(ask(&mut socket, "tags").await, "red");
        assert_eq!(lives(&world), 2);
        assert!(is_silent(&socket), "the turn that panicked sent nothing");
    });
}

#[test]
fn an_attachment_is_at_most_16_kib() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        // A text of this length has a CBOR head of three bytes.
        assert_eq!(ask(&mut socket, "attach-bytes 16381").await, "Ok(())");
        assert_eq!(ask(&mut socket, "attach-bytes 16382").await, "Err(Limit)");
    });
}

#[test]
fn a_socket_stays_with_its_object() {
    run(async {
        let world = world();
        let _socket = open(&world, "/").await;
        let other = world
            .env()
            .object::<crate::websockets::room::Room>()
            .get_by_name("another room");
        assert_eq!(other.sockets().await.unwrap(), 0);
        assert_eq!(room(&world).sockets().await.unwrap(), 1);
    });
}

#[test]
fn sockets_of_a_node_that_stops_are_not_delivered_to() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        world.node.shutdown(Duration::from_secs(1)).await.unwrap();
        let close = socket.deliver("echo x").await.unwrap_err();
        assert_eq!(close.code, abide::socket::code::GOING_AWAY);
    });
}
