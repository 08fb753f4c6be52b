//! One message for several sockets.

use crate::{
    support::run,
    websockets::room::{ask, is_silent, next, open, world},
};

#[test]
fn a_broadcast_reaches_all_those_with_a_tag_or_all_but_one() {
    run(async {
        let world = world();
        let mut red = open(&world, "/red").await;
        let mut blue = open(&world, "/blue").await;
        red.deliver("all hello").await.unwrap();
        assert_eq!(next(&mut red).await, "hello");
        assert_eq!(next(&mut blue).await, "hello");

        red.deliver("others you").await.unwrap();
        assert_eq!(next(&mut blue).await, "you");
        red.deliver("to red me").await.unwrap();
        assert_eq!(next(&mut red).await, "me");
        red.deliver("all-json hi").await.unwrap();
        assert_eq!(next(&mut red).await, r#"["hi"]"#);
        assert_eq!(next(&mut blue).await, r#"["hi"]"#);
        assert!(is_silent(&red) && is_silent(&blue));
    });
}

#[test]
fn a_broadcast_leaves_out_a_socket_that_is_closing() {
    run(async {
        let world = world();
        let mut closing = open(&world, "/red").await;
        let mut blue = open(&world, "/blue").await;
        closing.deliver("close-then-all bye").await.unwrap();
        assert_eq!(next(&mut blue).await, "bye");
        assert_eq!(ask(&mut blue, "tagged red").await, "1");
    });
}
