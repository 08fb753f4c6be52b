//! Replicas converge, nothing is heard before it is stored, nothing that was heard is lost.

use std::time::Duration;

use abide_harness::{Random, run};

use crate::yjs::support::{Peer, World};

#[test]
fn what_one_writes_all_get_and_its_author_hears_that_it_is_stored() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        let mut grace = Peer::connect(&world, 2).await;
        ada.insert(0, "hello").await;
        grace.until_text("hello").await;
        grace.insert(5, " world").await;
        ada.until_text("hello world").await;
        assert_eq!(ada.client.updates, 2, "its own comes back");
        let late = Peer::connect(&world, 3).await;
        assert_eq!(late.client.text(), "hello world");
        assert_eq!(world.text().await, "hello world");
    });
}

#[test]
fn what_was_heard_survives_a_kill_and_what_was_done_offline_is_merged() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        let mut grace = Peer::connect(&world, 2).await;
        ada.insert(0, "shared").await;
        grace.until_text("shared").await;

        grace.break_off();
        grace.client.insert(6, " by grace");
        ada.insert(0, "ours: ").await;
        ada.until_heard(2).await;
        let world = world.killed();
        assert_eq!(world.text().await, "ours: shared");

        ada.break_off();
        ada.client.remove(0, 6);
        ada.reconnect(&world).await;
        grace.reconnect(&world).await;
        ada.until_text("shared by grace").await;
        grace.until_text("shared by grace").await;
        assert_eq!(world.text().await, "shared by grace");
    });
}

#[test]
fn a_document_outlives_the_object_in_memory() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        ada.insert(0, "before").await;
        ada.hear().await;
        world.clock.advance(Duration::from_mins(1));
        ada.insert(6, " and after").await;
        let mut grace = Peer::connect(&world, 2).await;
        grace.until_text("before and after").await;
    });
}

#[test]
fn an_early_update_is_requested_again_with_its_dependencies() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        ada.client.insert(0, "written offline");
        // The second is sent before the server has asked for the first.
        ada.insert(15, ", and online").await;
        let mut grace = Peer::connect(&world, 2).await;
        // Asked for what it has, it sends everything.
        ada.until_heard(1).await;
        grace.until_text("written offline, and online").await;
        let world = world.killed();
        assert_eq!(world.text().await, "written offline, and online");
    });
}

#[test]
fn an_update_that_comes_twice_is_stored_once() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        ada.insert(0, "once").await;
        let everything = ada.client.everything();
        ada.say(everything.clone()).await;
        ada.say(everything).await;
        assert_eq!(world.size().await.updates, 1);
        ada.hear_all().await;
        assert_eq!(ada.client.updates, 1);
    });
}

#[test]
fn the_program_reads_and_writes_the_document_too() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        ada.insert(0, "text").await;
        world.pad().prepend("A ".to_owned()).await.unwrap();
        ada.until_text("A text").await;
        let world = world.killed();
        assert_eq!(world.text().await, "A text");
    });
}

#[test]
fn a_reader_hears_changes_and_makes_none() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        ada.insert(0, "written").await;
        let mut reader = Peer::new(2);
        reader.open_to_read(&world).await;
        let hello = reader.client.hello();
        reader.say(hello).await;
        reader.until_text("written").await;
        reader.state("{\"name\":\"reader\"}").await;
        ada.until_state(2, "{\"name\":\"reader\"}").await;
        // All of what it has heard is not a change.
        let everything = reader.client.everything();
        reader.say(everything).await;
        ada.insert(7, " again").await;
        reader.until_text("written again").await;
        reader.insert(0, "no ").await;
        assert_eq!(reader.closed().await.code, 4403);
        ada.settle().await;
        assert_eq!(world.text().await, "written again");
    });
}

#[test]
fn texts_of_the_program_are_handed_to_it() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        ada.say("__YPS:hello").await;
        while ada.texts.is_empty() {
            ada.hear().await;
        }
        assert_eq!(ada.texts, ["__YPS:hello!"]);
    });
}

/// Clients write and delete at random, lose their connections, and the node is killed, until all are connected and have heard everything.
#[test]
fn replicas_converge_whatever_happens() {
    for seed in 1..=6 {
        run(async {
            let options = abide::yjs::DocumentOptions::default().compact_after_updates(7);
            let mut random = Random::new(seed);
            let mut world = World::with(options);
            let mut peers = Vec::new();
            for id in 1..=3 {
                peers.push(Peer::connect(&world, id).await);
            }
            for _ in 0..150 {
                let one = random.below(3) as usize;
                let peer = &mut peers[one];
                match random.below(12) {
                    0 => peer.break_off(),
                    1 => {
                        peer.reconnect(&world).await;
                    }
                    2 if random.below(4) == 0 => {
                        world = world.killed();
                        for peer in &mut peers {
                            peer.break_off();
                        }
                    }
                    3..6 if peer.client.length() > 3 => {
                        let at = random.below(peer.client.length() - 3);
                        let update = peer.client.remove(at, 1 + random.below(3));
                        peer.say_if_connected(update).await;
                    }
                    _ => {
                        let at = random.below(peer.client.length() + 1);
                        let update = peer.client.insert(at, "word ");
                        peer.say_if_connected(update).await;
                    }
                }
                peers[one].hear_all().await;
            }
            for peer in &mut peers {
                peer.reconnect(&world).await;
            }
            for peer in &mut peers {
                peer.settle().await;
            }
            for peer in &mut peers {
                peer.settle().await;
            }
            let text = world.text().await;
            for peer in &peers {
                assert_eq!(peer.client.text(), text, "seed {seed}");
            }
            let stored = world.killed();
            assert_eq!(stored.text().await, text, "seed {seed}");
        });
    }
}
