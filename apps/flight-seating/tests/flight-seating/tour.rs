//! The part of the tour about a flight: its commands work as printed.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide_harness::{Tour, until};

/// Waits until the watcher has been sent this kind of message.
async fn until_watched(tour: &mut Tour, kind: &str) {
    until(kind, async || {
        let log = tour.sh("touch live.log; cat live.log");
        log.contains(kind).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs bash, curl, pkill, python3 and sqlite3"]
async fn a_flight_is_created_taken_killed_watched_and_closed() {
    let program = env!("CARGO_BIN_EXE_flight-seating");
    // The `abide` command belongs to another package.
    let mut tour = Tour::open("1. A flight", program, &["abide "]);
    let created = tour.run_to("-X PUT").await;
    let taken = "{\"seat\":\"2C\",\"occupant\":\"ada\",\"moved_from\":null}\n";
    assert!(created.ends_with(taken), "{created}");

    let race = tour.run_to("for name in").await;
    assert_eq!(race.matches("\"moved_from\":null").count(), 1, "{race}");
    assert_eq!(race.matches("seat_taken").count(), 3, "{race}");
    tour.run_to("kill -9").await;
    tour.run_to("serve").await;
    let kept = tour.run_to("curl $flight").await;
    assert!(kept.contains(r#"{"seat":"1D","occupant":"ada"}"#), "{kept}");
    assert!(!kept.contains(r#"{"seat":"1B","occupant":null}"#), "{kept}");

    tour.run_to("socket $flight/live").await;
    until_watched(&mut tour, "seats").await;
    tour.run_to("seats/2A").await;
    until_watched(&mut tour, "changed").await;
    let news = tour.run_to("grep -ao").await;
    assert!(
        news.contains(r#"{"seat":"2A","occupant":"grace"}"#),
        "{news}"
    );

    let closed = tour.run_to("-X POST $past/close").await;
    assert!(
        closed.contains("closed_at") && closed.contains("flight_closed"),
        "{closed}"
    );
    let stored = tour.run_to("sqlite3").await;
    assert!(stored.contains("1D|ada\n2A|grace\n"), "{stored}");
    tour.run_rest().await;
}
