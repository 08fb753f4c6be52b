//! Several data centres with delays between them keep one limit.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::{Site, Visitor, pause, second, status, until_status};
use abide_harness::{Client, run, until};

const TOP: &str = "data_centre_header = \"x-data-centre\"";
const ROOM: &str = "total_active_users = 30\nnew_users_per_minute = 1000";

/// This many visitors come at once, in turn to each of three data centres. How many enter.
async fn rush(client: &Client, count: usize) -> (usize, Vec<Visitor>) {
    let coming = (0..count).map(|number| {
        let client = client.clone();
        let centre = format!("dc-{}", number % 3 + 1);
        tokio::spawn(async move {
            let mut visitor = Visitor::new().with("x-data-centre", &centre);
            (visitor.enters(&client).await, visitor)
        })
    });
    let coming = coming.collect::<Vec<_>>();
    let (mut inside, mut waiting) = (0, Vec::new());
    for visitor in coming {
        match visitor.await.unwrap() {
            (true, _) => inside += 1,
            (false, visitor) => waiting.push(visitor),
        }
    }
    (inside, waiting)
}

#[test]
fn three_data_centres_keep_one_limit_and_share_their_queue_lengths() {
    run(async {
        let site = Site::new(TOP, ROOM)
            .await
            .arg("--data-centres=3")
            .arg("--delay=80ms")
            .arg("--workers=2");
        let server = site.start();
        let client = server.client();
        // Without history every number comes from Anywhere's counter, so that even a new room keeps its limit.
        let (inside, waiting) = rush(&client, 90).await;
        assert_eq!((inside, waiting.len()), (30, 60));
        until_status(&client, "active", 30).await;
        until_status(&client, "queued", 60).await;
        // However the 30 were spread, a visitor waits in each data centre now.
        let (more, _) = rush(&client, 3).await;
        assert_eq!(more, 0);
        // Each data centre has its own state, and they differ by the delay.
        until(
            "each data centre to know of the others' queues",
            async || {
                let seen = status(&client).await;
                let centres = seen["data_centres"].as_array()?.clone();
                let waits = |centre: &serde_json::Value| centre["queued"].as_u64() > Some(0);
                (centres.len() == 3 && centres.iter().all(waits)).then_some(())
            },
        )
        .await;
    });
}

#[test]
fn a_room_that_is_full_stays_so_when_a_minute_begins() {
    run(async {
        let top = format!("{TOP}\nminute = \"4s\"\nrefresh = \"60s\"");
        let site = Site::new(&top, ROOM)
            .await
            .arg("--data-centres=3")
            .arg("--delay=80ms");
        let server = site.start();
        let client = server.client();
        // Admissions on their way when a minute ends go to those who wait, and these look after the test only.
        while !second().is_multiple_of(4) {
            pause().await;
        }
        let (mut inside, _) = rush(&client, 60).await;
        let begun = second();
        // Three minutes begin meanwhile, and visitors come all the time.
        while second() < begun + 13 {
            inside += rush(&client, 6).await.0;
            assert!(inside <= 30, "{inside}");
            pause().await;
        }
        assert_eq!(inside, 30);
    });
}

#[test]
fn a_visitor_waiting_in_one_data_centre_enters_when_another_has_room() {
    run(async {
        let room = "total_active_users = 3\nnew_users_per_minute = 1000\nsession_duration = \"1s\"";
        let top = format!("{TOP}\nminute = \"1s\"\nrefresh = \"1s\"");
        let site = Site::new(&top, room)
            .await
            .arg("--data-centres=3")
            .arg("--delay=20ms")
            .arg("--workers=1");
        let server = site.start();
        let client = server.client();
        let mut first = Visitor::new().with("x-data-centre", "dc-1");
        assert!(first.enters(&client).await);
        let (_, waiting) = rush(&client, 9).await;
        let mut waiting: Vec<_> = waiting;
        assert!(!waiting.is_empty());
        until("all to have entered", async || {
            let mut still = Vec::new();
            for mut visitor in std::mem::take(&mut waiting) {
                if !visitor.enters(&client).await {
                    still.push(visitor);
                }
            }
            waiting = still;
            waiting.is_empty().then_some(())
        })
        .await;
    });
}

/// A sharp spike in all data centres, after minutes of even traffic. How many are inside.
async fn spike(division: &str) -> u64 {
    const LENGTH: u64 = 3;
    let top = format!("{TOP}\nminute = \"{LENGTH}s\"\nrefresh = \"60s\"");
    let room = format!("total_active_users = 100\nnew_users_per_minute = 1000\n{division}");
    let site = Site::new(&top, &room)
        .await
        .arg("--data-centres=3")
        .arg("--delay=100ms")
        .arg("--workers=2");
    let server = site.start();
    let client = server.client();
    let minute = || second() / LENGTH;
    let begun = minute();
    let mut inside = 0;
    while minute() < begun + 3 {
        inside += rush(&client, 3).await.0;
        pause().await;
    }
    inside += rush(&client, 400).await.0;
    assert_eq!(site.origin.requests(), inside);
    u64::try_from(inside).unwrap()
}

#[test]
fn a_sharp_spike_in_three_data_centres_fills_the_room_once() {
    run(async {
        let inside = spike("division = \"counters\"").await;
        // On a busy machine, reports may come later than a minute of three seconds waits for them.
        assert!((100..=105).contains(&inside), "{inside}");
    });
}

#[test]
fn a_sharp_spike_does_not_multiply_the_limit_with_even_shares() {
    run(async {
        let inside = spike("division = \"even\"").await;
        assert!((50..=105).contains(&inside), "{inside}");
    });
}
