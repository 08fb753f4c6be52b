//! The part of the tour about billing: its commands work as printed.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide_harness::{Tour, until};

/// Waits until this many outcomes of the subscription's chain contain a text.
async fn until_outcomes(tour: &mut Tour, text: &str, count: usize) {
    until(text, async || {
        let chain = tour.sh("billing replay $subscription");
        (chain.matches(text).count() == count).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs bash, curl, pkill, python3 and sqlite3"]
async fn a_subscription_is_paid_falls_behind_and_recovers() {
    // The `abide` command belongs to another package, and the receiver to another part.
    let without = ["abide ", "grep -o '\"type\""];
    let mut tour = Tour::open("7. Billing", env!("CARGO_BIN_EXE_billing"), &without);
    tour.run_to("export").await;
    // The commands expect the server at its default address.
    let url = tour.sh("echo http://$ABIDE__SERVER__LISTEN");
    let url = url.trim();
    tour.sh(&format!(
        "billing() {{ if [ $1 = serve ]; then exec billing \"$@\"; else command billing \"$@\" --url {url}; fi; }}"
    ));
    tour.run_to("subscription=$(").await;
    until_outcomes(&mut tour, "settled -> active", 1).await;
    tour.run_to("test-clock/advance").await;
    until_outcomes(&mut tour, "settled -> active", 2).await;

    let preview = tour.run_to("change/preview").await;
    assert!(preview.starts_with("\"totals\":"), "{preview}");

    let entitled = tour.run_to("card_declined").await;
    assert!(entitled.contains("\"entitled\":true"), "{entitled}");
    until_outcomes(&mut tour, "collect / failed -> past_due", 1).await;
    tour.run_to("test-clock/advance").await;
    until_outcomes(&mut tour, "collect / failed -> past_due", 2).await;
    tour.run_to("card_ok").await;
    until_outcomes(&mut tour, "settled -> active", 3).await;

    tour.run_to("kill -9").await;
    tour.run_to("serve").await;
    let checked = tour.run_to("check --all").await;
    assert!(
        checked.contains("each chain replays to its live state"),
        "{checked}"
    );
    let books =
        "invoice|paid|3|7500\npayment_intent|canceled|2|5000\npayment_intent|succeeded|3|7500\n";
    until("the read model", async || {
        let states = tour.sh("sqlite3 -readonly data/read-model.db 'SELECT state FROM resources'");
        (states.matches("paid").count() == 3).then_some(())
    })
    .await;
    assert_eq!(tour.run_to("sqlite3").await, books);
    tour.run_rest().await;
}
