//! Taking sockets and finding them again.

use abide::prelude::*;

use crate::{
    support::run,
    websockets::room::{ask, client_of, is_silent, notes, open, request, room, world},
};

#[test]
fn a_message_reaches_the_object_and_its_answer_the_peer() {
    run(async {
        let world = world();
        let mut socket = open(&world, "/").await;
        assert_eq!(ask(&mut socket, "echo hello").await, "hello");
        socket.deliver(vec![1, 2, 3]).await.unwrap();
        let frame = socket.next_frame().await;
        assert_eq!(
            frame,
            abide::socket::Frame::Message(Message::from(vec![1, 2, 3]))
        );
        assert!(is_silent(&socket));
    });
}

#[test]
fn sockets_are_found_by_tag_in_the_order_in_which_they_were_accepted() {
    run(async {
        let world = world();
        let mut first = open(&world, "/red,big").await;
        let _second = open(&world, "/blue").await;
        let _third = open(&world, "/red").await;
        assert_eq!(ask(&mut first, "tags").await, "red,big");
        for (tag, count) in [("red", "2"), ("blue", "1"), ("big", "1"), ("green", "0")] {
            assert_eq!(ask(&mut first, &format!("tagged {tag}")).await, count);
        }
        let ids = room(&world).ids().await.unwrap();
        assert!(ids.is_sorted() && ids.len() == 3, "{ids:?}");
    });
}

#[test]
fn tags_have_limits_and_a_tag_given_twice_counts_once() {
    run(async {
        let world = world();
        let tags = |count: usize| (0..count).map(|tag| tag.to_string()).collect::<Vec<_>>();
        let room = room(&world);
        let told = room.try_tags(tags(10)).await.unwrap();
        assert_eq!(told, "0,1,2,3,4,5,6,7,8,9");
        let told = room.try_tags(tags(11)).await.unwrap();
        assert!(told.contains("at most 10 tags"), "{told}");
        let twice = vec!["a".to_owned(), "b".to_owned(), "a".to_owned()];
        assert_eq!(room.try_tags(twice).await.unwrap(), "a,b");
        let told = room.try_tags(vec!["x".repeat(256)]).await.unwrap();
        assert_eq!(told.len(), 256);
        let told = room.try_tags(vec!["x".repeat(257)]).await.unwrap();
        assert!(told.contains("the limit is 256"), "{told}");
    });
}

#[test]
fn an_unclaimed_socket_ends_with_1006() {
    run(async {
        let world = world();
        let response = room(&world).fetch(request("/")).await.unwrap();
        assert_eq!(room(&world).sockets().await.unwrap(), 1);
        drop(response);
        world
            .until(|_| notes(&world) == [r#"closed 1006 "" not clean Closed, 0 left"#])
            .await;

        let refused = room(&world).fetch(request("/?refuse")).await.unwrap();
        assert_eq!(refused.status(), 200);
        world.until(|_| notes(&world).len() == 2).await;
        let panicked = room(&world).fetch(request("/?panic")).await.unwrap_err();
        assert!(panicked.object_reset());
        world.until(|_| notes(&world).len() == 3).await;
        assert_eq!(room(&world).sockets().await.unwrap(), 0);
        world.until(|node| node.stats().sockets_open == 0).await;
    });
}

#[test]
fn a_client_end_is_served_once() {
    run(async {
        let world = world();
        let response = room(&world).fetch(request("/")).await.unwrap();
        let client = client_of(response);
        let _endpoint = client.clone().claim().unwrap();
        let error = client.claim().unwrap_err();
        assert!(error.message().contains("already being served"), "{error}");
        assert_eq!(room(&world).sockets().await.unwrap(), 1);
    });
}
