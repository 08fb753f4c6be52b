//! Snapshots save work, but nothing depends on them.

use abide::limits::outcomes as limits;
use abide::outcomes::{OutcomesOptions, Until};
use serde_json::json;

use crate::outcomes::support::{World, damage};

fn every(outcomes: i64) -> OutcomesOptions {
    OutcomesOptions::default().snapshot_every(outcomes)
}

/// An account of 26 outcomes with a snapshot at the 20th.
async fn world() -> World {
    let world = World::with(every(10));
    world.opened(25).await;
    assert_eq!(world.number("SELECT seq FROM outcomes_snapshot").await, 20);
    world
}

#[tokio::test]
async fn a_cold_start_replays_what_came_after_the_snapshot() {
    let world = world().await.killed();
    assert_eq!(world.seen().await, (26, "open".to_owned(), 25, 6));
    let checked = world.bank().check().await.unwrap();
    assert_eq!(checked, (26, "open".to_owned(), Some(20)));
    // Past states begin at the snapshot if they are behind it, and at the beginning otherwise.
    assert_eq!(
        world.seen_at(Until::Seq(23)).await,
        (23, "open".to_owned(), 22, 3)
    );
    assert_eq!(
        world.seen_at(Until::Seq(19)).await,
        (19, "open".to_owned(), 18, 19)
    );
}

#[tokio::test]
async fn a_snapshot_is_deleted_without_loss() {
    let world = world().await;
    world.bank().delete_snapshot().await.unwrap();
    assert_eq!(
        world.number("SELECT count(*) FROM outcomes_snapshot").await,
        0
    );
    let world = world.killed();
    assert_eq!(world.seen().await, (26, "open".to_owned(), 25, 26));
    world.tamper("DROP TABLE outcomes_snapshot").await;
    world.bank().delete_snapshot().await.unwrap();
    world.deposited(4).await;
    assert_eq!(world.number("SELECT seq FROM outcomes_snapshot").await, 30);
    let world = world.killed();
    assert_eq!(world.seen().await, (30, "open".to_owned(), 29, 0));
}

#[tokio::test]
async fn a_damaged_snapshot_is_not_used() {
    for damage in [
        "UPDATE outcomes_snapshot SET machine = '{\"balance\":9,\"notes\":[]}'",
        "UPDATE outcomes_snapshot SET machine = 'x'",
        "UPDATE outcomes_snapshot SET seq = 21",
        "UPDATE outcomes_snapshot SET ts = ts - 1",
        "UPDATE outcomes_snapshot SET state = 'closed'",
        "UPDATE outcomes_snapshot SET checksum = x'00'",
        "UPDATE outcomes_snapshot SET machine = x'ff'",
        "UPDATE outcomes_snapshot SET ts = 'noon'",
    ] {
        let world = world().await;
        world.tamper(damage).await;
        let world = world.killed();
        assert_eq!(
            world.seen().await,
            (26, "open".to_owned(), 25, 26),
            "{damage}"
        );
        let checked = world.bank().check().await.unwrap();
        assert_eq!(checked.2, None, "{damage}");
    }
}

#[tokio::test]
async fn a_snapshot_is_used_without_the_option_that_takes_them() {
    let world = world().await.reopened(OutcomesOptions::default());
    assert_eq!(world.seen().await.3, 6);
    world.deposited(10).await;
    assert_eq!(world.number("SELECT seq FROM outcomes_snapshot").await, 20);
}

#[tokio::test]
async fn a_chain_that_lost_what_its_snapshot_knows_is_damaged() {
    let world = world().await;
    world.tamper("DELETE FROM outcomes WHERE seq > 17").await;
    let world = world.killed();
    assert_eq!(
        damage(world.bank().seen().await),
        "the chain of the account is damaged at outcome 18: it is missing"
    );
}

#[tokio::test]
async fn a_snapshot_that_differs_from_the_chain_is_found() {
    let world = world().await;
    world
        .tamper("UPDATE outcomes SET data = '3' WHERE seq = 4")
        .await;
    assert_eq!(
        damage(world.bank().check().await),
        "the replay of the chain of the account differs from the snapshot at outcome 20: `/balance` is 21 and 19"
    );
}

#[tokio::test]
async fn no_snapshot_is_taken_of_a_machine_that_no_row_can_hold() {
    let world = World::with(every(1));
    world.opened(0).await;
    let most = json!("x".repeat(limits::MAX_DATA_BYTES - 2));
    for _ in 0..3 {
        world.make(&[("withdraw", "declined", most.clone())]).await;
    }
    assert_eq!(world.number("SELECT seq FROM outcomes_snapshot").await, 2);
    let world = world.killed();
    assert_eq!(world.seen().await, (4, "open".to_owned(), 0, 2));
}

#[tokio::test]
async fn a_snapshot_every_0_outcomes_is_refused() {
    let world = World::with(every(0));
    let error = world.bank().seen().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a snapshot cannot be taken every 0 outcomes"),
        "{error}"
    );
}
