//! Who is there is shown, and who has gone is not.

use std::time::Duration;

use abide_harness::run;

use crate::yjs::{
    client::YjsClient,
    support::{Peer, World},
};

#[test]
fn who_comes_sees_who_is_there_and_who_goes_is_gone() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        ada.state(r#"{"name":"ada"}"#).await;
        let mut grace = Peer::connect(&world, 2).await;
        grace.settle().await;
        assert_eq!(grace.client.states[&1], r#"{"name":"ada"}"#);
        grace.state(r#"{"name":"grace"}"#).await;
        grace.settle().await;
        ada.settle().await;
        assert!(ada.client.states.contains_key(&2));
        assert!(ada.client.states.contains_key(&1), "its own comes back");

        grace.break_off();
        while ada.client.states.contains_key(&2) {
            ada.hear().await;
        }
        let mut late = Peer::connect(&world, 3).await;
        late.settle().await;
        assert_eq!(late.client.states.keys().collect::<Vec<_>>(), [&1]);
    });
}

#[test]
fn states_outlive_the_object_in_memory() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        ada.state(r#"{"name":"ada"}"#).await;
        ada.settle().await;
        world.clock.advance(Duration::from_mins(1));
        let mut grace = Peer::connect(&world, 2).await;
        grace.settle().await;
        assert!(grace.client.states.contains_key(&1));
        // And it is still known whose it is, when its connection is the first that wakes the object.
        world.clock.advance(Duration::from_mins(1));
        ada.break_off();
        while grace.client.states.contains_key(&1) {
            grace.hear().await;
        }
    });
}

#[test]
fn states_repeated_by_others_change_nothing_and_revive_no_client() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        let mut grace = Peer::connect(&world, 2).await;
        ada.state(r#"{"name":"ada"}"#).await;
        ada.settle().await;
        grace.state(r#"{"name":"grace"}"#).await;
        grace.settle().await;

        // Neither what is the same, nor what is newer, nor the end of it.
        for (clock, state) in [(1, "{}"), (9, r#"{"name":"eve"}"#), (9, "null")] {
            grace.say(YjsClient::state_of(1, clock, state)).await;
        }
        grace.settle().await;
        assert_eq!(grace.client.states[&1], r#"{"name":"ada"}"#);

        ada.break_off();
        while grace.client.states.contains_key(&1) {
            grace.hear().await;
        }
        grace
            .say(YjsClient::state_of(1, 1, r#"{"name":"ada"}"#))
            .await;
        grace.settle().await;
        let mut late = Peer::connect(&world, 3).await;
        late.settle().await;
        assert_eq!(late.client.states.keys().collect::<Vec<_>>(), [&2]);

        // It comes back itself, with a later clock.
        ada.reconnect(&world).await;
        ada.state(r#"{"name":"ada again"}"#).await;
        late.until_state(1, r#"{"name":"ada again"}"#).await;
    });
}

#[test]
fn a_client_takes_its_state_back_and_asks_for_all() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        let mut grace = Peer::connect(&world, 2).await;
        ada.state("{}").await;
        grace.until_state(1, "{}").await;
        ada.state("null").await;
        while grace.client.states.contains_key(&1) {
            grace.hear().await;
        }
        grace.state(r#"{"here":true}"#).await;
        grace.settle().await;
        ada.settle().await;
        ada.client.states.clear();
        ada.say(vec![3]).await;
        ada.until_state(2, r#"{"here":true}"#).await;
    });
}
