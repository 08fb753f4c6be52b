//! Transitions: what they accept, what they refuse, and their atomicity.

use std::time::Duration;

use abide::limits::outcomes as limits;
use abide::outcomes::{Allowed, OutcomesError};
use serde_json::{Value, json};

use crate::outcomes::support::World;

#[tokio::test]
async fn a_transition_is_appended_applied_and_projected() {
    let world = World::new();
    let begun = world.now();
    world.make(&[("open", "opened", Value::Null)]).await;
    world.clock.advance(Duration::from_secs(5));
    let seq = world.make(&[("deposit", "credited", json!(40))]).await;
    assert_eq!(seq, 2);
    assert_eq!(world.seen().await, (2, "open".to_owned(), 40, 2));
    let history = world.bank().history(0, 10).await.unwrap();
    assert_eq!(history.len(), 2);
    let entry = &history[1];
    assert_eq!(
        (entry.seq, entry.action.as_str(), entry.outcome.as_str()),
        (2, "deposit", "credited")
    );
    assert_eq!((entry.version, entry.ts), (1, begun + 5_000));
    assert_eq!(entry.data::<i64>().unwrap(), 40);
    let projected = "SELECT count(*) FROM model WHERE seq = 2 AND outcome = 'credited' AND state = 'open' AND balance = 40";
    assert_eq!(world.number(projected).await, 1);
}

#[tokio::test]
async fn a_refusal_says_what_would_have_been_allowed_and_changes_nothing() {
    let world = World::new();
    let refused = world.refusal("deposit", "credited", json!(1)).await;
    assert_eq!(
        refused.to_string(),
        "the account is `fresh` and does not allow `deposit` with `credited`: allowed are `open` with `opened`"
    );
    let OutcomesError::Refused { allowed, state, .. } = refused else {
        panic!("{refused}");
    };
    let open = Allowed {
        action: "open".to_owned(),
        outcome: "opened".to_owned(),
    };
    assert_eq!((allowed, state.as_str()), (vec![open], "fresh"));
    assert_eq!(world.seen().await, (0, "fresh".to_owned(), 0, 0));

    world.opened(2).await;
    assert_eq!(
        world.bank().allowed().await.unwrap(),
        ["credited", "debited", "declined", "closed"]
    );
    world.refusal("deposit", "debited", json!(1)).await;
    world.refusal("jump", "credited", json!(1)).await;
    world.make(&[("close", "closed", Value::Null)]).await;
    let refused = world.refusal("deposit", "credited", json!(1)).await;
    assert!(
        refused.to_string().ends_with("nothing is allowed any more"),
        "{refused}"
    );
    assert_eq!(world.seen().await, (4, "closed".to_owned(), 2, 4));
    assert_eq!(world.number("SELECT count(*) FROM outcomes").await, 4);
    assert_eq!(world.number("SELECT count(*) FROM model").await, 4);
}

#[tokio::test]
async fn a_rule_of_the_machine_is_asked_before_anything_is_written() {
    let world = World::new();
    world.opened(5).await;
    let rejected = world.refusal("withdraw", "debited", json!(6)).await;
    assert_eq!(
        rejected.to_string(),
        "`withdraw` with `debited` was rejected: there is not so much"
    );
    // Nothing was replayed for it: the account has applied each outcome once.
    assert_eq!(world.seen().await, (6, "open".to_owned(), 5, 6));
    world.make(&[("withdraw", "debited", json!(5))]).await;
}

#[tokio::test]
async fn what_cannot_be_applied_changes_neither_the_table_nor_memory() {
    let world = World::new();
    world.opened(3).await;
    let rejected = world.refusal("deposit", "credited", json!(2_000_000)).await;
    assert!(matches!(rejected, OutcomesError::Rejected { .. }));
    let rejected = world.refusal("deposit", "credited", json!("much")).await;
    assert!(rejected.to_string().contains("the data of `credited`"));
    assert_eq!(world.seen().await, (4, "open".to_owned(), 3, 4));
    assert_eq!(world.number("SELECT max(seq) FROM outcomes").await, 4);
    world.bank().check().await.unwrap();
}

#[tokio::test]
async fn a_hook_that_fails_changes_neither_the_table_nor_memory() {
    let world = World::new();
    world.opened(3).await;
    let failed = world.refusal("deposit", "credited", json!(663)).await;
    assert_eq!(failed.to_string(), "the hook fears this number");
    assert_eq!(world.seen().await, (4, "open".to_owned(), 3, 4));
    assert_eq!(world.number("SELECT count(*) FROM model").await, 4);
    assert_eq!(world.make(&[("deposit", "credited", json!(11))]).await, 5);
    assert_eq!(world.bank().check().await.unwrap().0, 5);
}

#[tokio::test]
async fn a_transaction_around_transitions_that_is_undone_takes_memory_along() {
    let world = World::new();
    world.opened(2).await;
    let seen = world.bank().undone(vec![3, 4]).await.unwrap();
    assert_eq!(seen, (3, "open".to_owned(), 2, 3));
    assert_eq!(world.make(&[("deposit", "credited", json!(50))]).await, 4);
    assert_eq!(world.seen().await.2, 52);
    world.bank().check().await.unwrap();
}

#[tokio::test]
async fn the_chain_is_not_used_from_within_itself() {
    let world = World::new();
    world.opened(1).await;
    let told = world.bank().nested().await.unwrap();
    assert!(told.starts_with("the chain is in use"), "{told}");
    assert_eq!(world.make(&[("deposit", "credited", json!(1))]).await, 3);
}

#[tokio::test]
async fn data_that_is_too_large_is_refused() {
    let world = World::new();
    world.opened(0).await;
    let most = "x".repeat(limits::MAX_DATA_BYTES - 2);
    let refused = world
        .refusal("withdraw", "declined", json!(format!("{most}x")))
        .await;
    assert!(matches!(refused, OutcomesError::Invalid(_)));
    assert!(refused.to_string().contains("1048577 bytes"), "{refused}");
    assert_eq!(
        world.make(&[("withdraw", "declined", json!(most))]).await,
        2
    );
}

#[tokio::test]
async fn time_never_goes_backwards_along_a_chain() {
    let world = World::new();
    world.clock.advance(Duration::from_hours(1));
    world.opened(1).await;
    let last = world.now();
    world.clock.set_wall(-3_000_000);
    world.make(&[("deposit", "credited", json!(1))]).await;
    assert_eq!(world.number("SELECT max(ts) FROM outcomes").await, last);
    assert_eq!(world.number("SELECT min(ts) FROM outcomes").await, last);
    world.clock.advance(Duration::from_secs(3_001));
    world.make(&[("deposit", "credited", json!(1))]).await;
    assert_eq!(
        world.number("SELECT max(ts) FROM outcomes").await,
        last + 1_000
    );
    world.bank().check().await.unwrap();
}
