//! Damaged chains are refused, with the position of the damage.

use abide::ErrorKind;
use abide::outcomes::Until;
use serde_json::json;

use crate::outcomes::support::{World, damage};

/// What an account of seven outcomes says of its chain after something was done to it and the node was killed.
async fn after(sql: &str) -> String {
    let world = World::new();
    world.opened(6).await;
    world.tamper(sql).await;
    let world = world.killed();
    let told = damage(world.bank().seen().await);
    // Nothing is written to it, and it can still be looked at.
    let refused = world.refusal("deposit", "credited", json!(1)).await;
    assert_eq!(refused.to_string(), told);
    let printed = world.bank().print(Until::End).await.unwrap();
    assert_eq!(printed.lines().last().unwrap(), told);
    told
}

#[tokio::test]
async fn a_gap_is_found() {
    assert_eq!(
        after("DELETE FROM outcomes WHERE seq = 4").await,
        "the chain of the account is damaged at outcome 4: it is missing; the next is 5"
    );
    assert_eq!(
        after("DELETE FROM outcomes WHERE seq = 1").await,
        "the chain of the account is damaged at outcome 1: it is missing; the next is 2"
    );
}

#[tokio::test]
async fn an_outcome_that_the_schema_does_not_allow_is_found() {
    assert_eq!(
        after("UPDATE outcomes SET outcome = 'lent' WHERE seq = 5").await,
        "the chain of the account is damaged at outcome 5: `deposit` with `lent` is not allowed in the state `open`"
    );
    assert_eq!(
        after("UPDATE outcomes SET action = 'close', outcome = 'closed' WHERE seq = 3").await,
        "the chain of the account is damaged at outcome 4: `deposit` with `credited` is not allowed in the state `closed`"
    );
}

#[tokio::test]
async fn data_that_cannot_be_applied_is_found() {
    for data in ["'\"much\"'", "'{'", "''", "'2000000'"] {
        let told = after(&format!("UPDATE outcomes SET data = {data} WHERE seq = 2")).await;
        assert!(told.contains("damaged at outcome 2: "), "{told}");
    }
    let told = after("UPDATE outcomes SET data = x'ff00' WHERE seq = 3").await;
    assert!(told.contains("damaged at outcome 3: "), "{told}");
}

#[tokio::test]
async fn time_that_goes_backwards_is_found() {
    assert_eq!(
        after("UPDATE outcomes SET ts = ts - 1 WHERE seq = 6").await,
        "the chain of the account is damaged at outcome 6: its time is before that of its predecessor"
    );
}

#[tokio::test]
async fn an_outcome_of_a_newer_program_is_not_read() {
    let told = after("UPDATE outcomes SET version = 2 WHERE seq = 3").await;
    assert!(told.ends_with(
        "outcome 3: its data has version 2, but this program knows only 1: run the program that wrote it, or a newer one"
    ));
}

#[tokio::test]
async fn tables_of_a_newer_program_and_of_another_schema_are_refused() {
    for (sql, kind, text) in [
        (
            "UPDATE outcomes_meta SET version = 9",
            ErrorKind::Damaged,
            "the chain's tables have version 9 and this program knows 1",
        ),
        (
            "UPDATE outcomes_meta SET schema = 'door'",
            ErrorKind::Input,
            "the object has a chain of `door`, but it is opened as one of `account`",
        ),
    ] {
        let world = World::new();
        world.opened(1).await;
        world.tamper(sql).await;
        let world = world.killed();
        let error = world.bank().seen().await.unwrap_err();
        assert!(error.to_string().contains(text), "{kind:?}: {error}");
    }
}

#[tokio::test]
async fn a_live_state_that_is_not_what_the_chain_says_is_found() {
    let world = World::new();
    world.opened(4).await;
    world
        .tamper("UPDATE outcomes SET data = '5' WHERE seq = 3")
        .await;
    assert_eq!(
        damage(world.bank().check().await),
        "the replay of the chain of the account differs from the live state at outcome 5: `/balance` is 8 and 4"
    );
}
