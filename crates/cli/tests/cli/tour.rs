//! The part of the tour about the outbox: its commands work as printed.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide_harness::{Tour, until};

/// The lines of the receiver about order 2: the status and the idempotency key of each.
fn requests(received: &str) -> Vec<(String, String)> {
    let lines = received
        .lines()
        .filter(|line| line.ends_with(r#"{"order":2}"#));
    let words = lines.map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap())
    });
    words.collect()
}

async fn until_status(tour: &mut Tour, line: &str) {
    until(line, async || {
        let counts = tour.sh("abide outbox status orders");
        counts.lines().any(|count| count == line).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs bash, curl, pkill, python3 and sqlite3"]
async fn a_message_outlives_a_broken_receiver_and_a_crash() {
    let mut tour = Tour::open("3. The outbox", env!("CARGO_BIN_EXE_abide"), &[]);
    let enqueued = tour.run_to("Idempotency-Key").await;
    let once = "{\"id\":1,\"duplicate\":false}\n";
    assert_eq!(enqueued, once.repeat(2), "the request was applied once");
    until_status(&mut tour, "sent\t1").await;

    let shown = tour.run_to("abide outbox show").await;
    assert!(shown.starts_with("2\t"), "{shown}");
    until_status(&mut tour, "failed\t1").await;
    let redriven = tour.run_to("abide outbox redrive").await;
    assert_eq!(redriven, "1 dead letter redriven\n");
    until_status(&mut tour, "sent\t2").await;

    let requests = requests(&tour.sh("cat received.log"));
    let ((last, key), failed) = requests.split_last().unwrap();
    assert_eq!(last, "200");
    assert!(!failed.is_empty(), "{requests:?}");
    assert!(
        failed
            .iter()
            .all(|one| *one == ("500".to_owned(), key.clone())),
        "{requests:?}"
    );
    tour.run_rest().await;
}
