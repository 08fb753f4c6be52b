//! Messages, tags, and what is known of a connection.

use std::time::Duration;

use abide_harness::run;

use crate::party::support::{Known, World};

#[test]
fn a_message_reaches_those_with_the_tag_but_not_those_who_are_excepted() {
    run(async {
        let world = World::new();
        let mut ada = world.connect("/blue/player?_pk=ada").await;
        let mut grace = world.connect("/blue?_pk=grace").await;
        let mut mary = world.connect("?_pk=mary").await;
        assert_eq!(world.there(None).await, ["ada", "grace", "mary"]);
        assert_eq!(world.there(Some("blue")).await, ["ada", "grace"]);
        assert_eq!(world.there(Some("player")).await, ["ada"]);

        assert_eq!(world.tell(Some("blue"), "to the blue", "grace").await, 1);
        assert_eq!(ada.hear().await, "to the blue");
        assert!(grace.hears_nothing() && mary.hears_nothing());
        assert_eq!(world.tell(None, "to all", "no client").await, 3);
        for peer in [&mut ada, &mut grace, &mut mary] {
            assert_eq!(peer.hear().await, "to all");
        }

        mary.say("hello").await;
        assert_eq!(ada.hear().await, "hello");
        assert_eq!(grace.hear().await, "hello");
        assert!(mary.hears_nothing(), "its own does not come back");
    });
}

#[test]
fn a_connection_keeps_its_state_while_the_object_leaves_memory() {
    run(async {
        let world = World::new();
        let mut ada = world.connect("/blue?_pk=ada&x=1").await;
        let mut grace = world.connect("?_pk=grace").await;
        for _ in 0..3 {
            ada.say("hello").await;
            assert_eq!(grace.hear().await, "hello");
            world.clock.advance(Duration::from_mins(1));
        }
        let known = Known {
            id: "ada".to_owned(),
            tags: vec!["blue".to_owned()],
            uri: "/parties/main/lobby/blue?_pk=ada&x=1".to_owned(),
            said: Some(3),
        };
        assert_eq!(world.find("ada").await, Some(known));
        assert_eq!(world.find("grace").await.unwrap().said, None);
    });
}

#[test]
fn a_client_that_comes_back_is_found_beside_its_older_connection() {
    run(async {
        let world = World::new();
        let old = world.connect("/first?_pk=ada").await;
        let new = world.connect("/second?_pk=ada").await;
        assert_eq!(world.find("ada").await.unwrap().tags, ["second"]);
        // The older one ends: the newer is still there.
        drop(old);
        while world.there(None).await.len() == 2 {}
        assert_eq!(world.find("ada").await.unwrap().tags, ["second"]);
        drop(new);
        while !world.there(None).await.is_empty() {}
        assert_eq!(world.find("ada").await, None);
    });
}

#[test]
fn clients_without_an_id_are_given_different_ones() {
    run(async {
        let world = World::new();
        let _one = world.connect("").await;
        let _two = world.connect("?x=y").await;
        let ids = world.there(None).await;
        assert_ne!(ids[0], ids[1]);
        assert!(ids.iter().all(|id| !id.is_empty()), "{ids:?}");
        // An id may have any characters that an address can encode.
        let _third = world.connect("?_pk=%C3%A4%20%26%2F").await;
        assert!(world.find("ä &/").await.is_some());
    });
}
