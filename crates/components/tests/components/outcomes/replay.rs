//! Cold starts, past states, old data, and replays for people.

use std::time::Duration;

use abide::limits::outcomes as limits;
use abide::outcomes::{OutcomesError, Until};
use serde_json::{Value, json};

use crate::outcomes::support::World;

#[tokio::test]
async fn a_killed_node_comes_back_to_the_same_state() {
    let world = World::new();
    world.opened(30).await;
    world
        .make(&[
            ("withdraw", "debited", json!(7)),
            ("withdraw", "declined", json!("too much")),
        ])
        .await;
    let world = world.killed();
    assert_eq!(world.seen().await, (33, "open".to_owned(), 23, 33));
    let checked = world.bank().check().await.unwrap();
    assert_eq!(checked, (33, "open".to_owned(), None));
    assert_eq!(world.make(&[("close", "closed", Value::Null)]).await, 34);
}

#[tokio::test]
async fn every_acknowledged_outcome_survives_a_loss_of_power() {
    for seed in 0..20 {
        let world = World::new();
        world.opened(5).await;
        // On its way when the power goes.
        let bank = world.bank();
        let call = bank.transition("deposit".into(), "credited".into(), json!(100));
        drop(call);
        let world = world.crashed(seed);
        let (seq, state, balance, _) = world.seen().await;
        assert_eq!(state, "open");
        assert!(
            (seq, balance) == (6, 5) || (seq, balance) == (7, 105),
            "seed {seed}: {seq} {balance}"
        );
        let projected = "SELECT count(*) FROM model";
        assert_eq!(world.number(projected).await, seq, "seed {seed}");
        world.bank().check().await.unwrap();
    }
}

#[tokio::test]
async fn an_object_that_left_memory_replays_its_chain() {
    let world = World::new();
    world.opened(4).await;
    // The balance is what a cold start makes of the chain, not what memory had.
    world
        .tamper("UPDATE outcomes SET data = '10' WHERE seq = 2")
        .await;
    let mut waited = 0;
    while world.seen().await.2 != 13 {
        assert!(waited < 1_000, "the object stays in memory");
        waited += 1;
        world.clock.advance(Duration::from_secs(11));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn any_past_state_is_shown_by_its_number_and_by_its_time() {
    let world = World::new();
    let begun = world.now();
    world.make(&[("open", "opened", Value::Null)]).await;
    for amount in 1..=6 {
        world.clock.advance(Duration::from_secs(10));
        world.make(&[("deposit", "credited", json!(amount))]).await;
    }
    assert_eq!(
        world.seen_at(Until::Seq(0)).await,
        (0, "fresh".to_owned(), 0, 0)
    );
    for seq in 1..=7 {
        let balance = (seq - 1) * seq / 2;
        let wanted = (seq, "open".to_owned(), balance, seq);
        assert_eq!(world.seen_at(Until::Seq(seq)).await, wanted);
        let time = begun + (seq - 1) * 10_000;
        assert_eq!(world.seen_at(Until::Time(time)).await, wanted);
        assert_eq!(world.seen_at(Until::Time(time + 9_999)).await, wanted);
    }
    assert_eq!(world.seen_at(Until::Time(begun - 1)).await.0, 0);
    assert_eq!(world.seen_at(Until::End).await.0, 7);
    for seq in [8, -1] {
        let asked = world.bank().seen_at(Until::Seq(seq)).await;
        let told = asked.unwrap_err();
        assert!(matches!(told, OutcomesError::NotFound { last: 7, .. }));
        assert_eq!(
            told.to_string(),
            format!("there is no outcome {seq}: the chain has 7 outcomes")
        );
    }
}

#[test]
fn a_place_in_a_chain_is_read_from_a_text() {
    let place = |text: &str| text.parse::<Until>();
    assert_eq!(place("end").unwrap(), Until::End);
    assert_eq!(place("17").unwrap(), Until::Seq(17));
    assert_eq!(place("1970-01-01T00:00:01.5Z").unwrap(), Until::Time(1_500));
    assert_eq!(place("1970-01-01T02:00:00+02:00").unwrap(), Until::Time(0));
    let told = place("yesterday").unwrap_err().to_string();
    assert!(told.contains("`yesterday` is not a position"), "{told}");
}

#[tokio::test]
async fn history_is_read_page_by_page() {
    let world = World::new();
    world.opened(9).await;
    let mut after = 0;
    let mut read = Vec::new();
    loop {
        let page = world.bank().history(after, 4).await.unwrap();
        assert!(page.len() <= 4);
        let Some(last) = page.last() else { break };
        after = last.seq;
        read.extend(page.into_iter().map(|entry| entry.seq));
    }
    assert_eq!(read, (1..=10).collect::<Vec<_>>());
    let all = world.bank().history(0, usize::MAX).await.unwrap();
    assert_eq!(all.len(), 10);
}

#[tokio::test]
async fn a_page_of_large_outcomes_has_few_of_them() {
    let world = World::new();
    world.opened(0).await;
    let large = json!("x".repeat(limits::MAX_DATA_BYTES - 2));
    for _ in 0..10 {
        let declined = ("withdraw", "declined", large.clone());
        world.make(&[declined]).await;
    }
    let first = world.bank().history(1, 100).await.unwrap();
    assert_eq!(first.len(), 8);
    let rest = world.bank().history(9, 100).await.unwrap();
    assert_eq!(rest.len(), 2);
    let printed = world.bank().print(Until::Seq(5)).await.unwrap();
    let line = printed.lines().nth(3).unwrap();
    assert!(line.len() < 2 * limits::MAX_PRINTED_DATA, "{}", line.len());
}

#[tokio::test]
async fn a_replay_is_printed() {
    let world = World::new();
    world.tamper("DELETE FROM outcomes").await;
    world.make(&[("open", "opened", Value::Null)]).await;
    world.make(&[("deposit", "credited", json!(5))]).await;
    world
        .make(&[("close", "closed", json!({"by": "ada"}))])
        .await;
    let printed = world.bank().print(Until::Seq(2)).await.unwrap();
    let time = "1970-01-01T00:00:00Z";
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines[0].starts_with("     1  "), "{printed}");
    assert!(
        lines[0].ends_with("  open / opened -> open  null"),
        "{printed}"
    );
    assert!(
        lines[1].ends_with("  deposit / credited -> open  5"),
        "{printed}"
    );
    assert_eq!(lines[2], "open at outcome 2: {");
    assert!(printed.contains("\"balance\": 5"), "{printed}");
    assert_eq!(lines[0][8..].split(' ').next().unwrap().len(), time.len());
    let all = world.bank().print(Until::End).await.unwrap();
    assert!(
        all.contains(r#"close / closed -> closed  {"by":"ada"}"#),
        "{all}"
    );
}

#[tokio::test]
async fn a_printed_replay_of_a_long_chain_has_its_end() {
    let world = World::new();
    world.opened(0).await;
    let more = limits::MAX_PRINTED + 9;
    world
        .tamper(&format!(
            "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= {more})
             INSERT INTO outcomes SELECT i, 'deposit', 'credited', 1, '1', (SELECT ts FROM outcomes WHERE seq = 1) FROM n"
        ))
        .await;
    let printed = world.bank().print(Until::End).await.unwrap();
    assert!(printed.starts_with("10 earlier outcomes are left out\n    11  "));
    assert!(printed.contains(&format!("open at outcome {}: ", more + 1)));
}
