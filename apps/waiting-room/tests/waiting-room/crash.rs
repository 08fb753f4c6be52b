//! `kill -9` loses no visitor who was accepted, and lets no visitor jump the queue.
//!
//! Visitors come all the time; after a random number of answers the process is killed and started again. Visitors who
//! were told that they are inside are still inside, the limit holds over all lives of the process together, and
//! visitors who come after a kill do not pass those who wait. `WAITING_ROOM_CRASH_ROUNDS` sets the number of rounds,
//! `WAITING_ROOM_CRASH_SEED` the sequence of moments.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use crate::support::{Site, Visitor, WELCOME, rush, status, until_status};
use abide_harness::{Client, Random, run, setting};
use http_body_util::Full;
use tokio::sync::Notify;

const LIMIT: usize = 60;

/// What visitors were told.
#[derive(Default)]
struct Told {
    inside: Vec<Visitor>,
    waiting: Vec<Visitor>,
}

/// Visitors come one after the other until the server does not answer any more.
async fn come(client: Client, told: Arc<Mutex<Told>>, answers: Arc<(AtomicU32, Notify)>) {
    loop {
        let request = http::Request::get(client.url("/")).header("accept", "application/json");
        let Ok(answer) = client.send(request.body(Full::default()).unwrap()).await else {
            return;
        };
        let cookie = answer.headers["set-cookie"].to_str().unwrap();
        let mut visitor = Visitor::new();
        visitor.cookie = cookie.split(';').next().map(str::to_owned);
        let mut told = told.lock().unwrap();
        if answer.body == WELCOME {
            told.inside.push(visitor);
        } else {
            assert_eq!(answer.body["status"], "queued", "{answer:?}");
            told.waiting.push(visitor);
        }
        answers.0.fetch_add(1, Ordering::SeqCst);
        answers.1.notify_one();
    }
}

#[test]
fn accepted_visitors_stay_inside_and_the_queue_keeps_its_order() {
    run(async {
        let rounds = setting("WAITING_ROOM_CRASH_ROUNDS", 4);
        let seed = setting("WAITING_ROOM_CRASH_SEED", 0xD00A);
        println!("{rounds} rounds from seed {seed}");
        let mut random = Random::new(seed);
        let room = format!(
            "total_active_users = {LIMIT}\nnew_users_per_minute = 100000\nsession_duration = \"1h\""
        );
        let site = Site::new("refresh = \"60s\"", &room).await;
        let told = Arc::new(Mutex::new(Told::default()));
        for round in 0..rounds {
            let server = site.start();
            let moment = 5 + random.below(60);
            let answers = Arc::new((AtomicU32::new(0), Notify::new()));
            let coming: Vec<_> = (0..8)
                .map(|_| {
                    tokio::spawn(come(
                        server.client(),
                        Arc::clone(&told),
                        Arc::clone(&answers),
                    ))
                })
                .collect();
            while answers.0.load(Ordering::SeqCst) < moment {
                answers.1.notified().await;
            }
            server.kill();
            for coming in coming {
                coming.await.unwrap();
            }
            // In the next life.
            let server = site.start();
            let client = server.client();
            let (mut inside, waiting) = {
                let told = told.lock().unwrap();
                (told.inside.clone(), told.waiting.clone())
            };
            assert!(
                inside.len() <= LIMIT,
                "round {round}: {} were told that they are inside",
                inside.len()
            );
            for visitor in &mut inside {
                assert!(
                    visitor.enters(&client).await,
                    "round {round}: an accepted visitor was lost"
                );
            }
            let waits = waiting.len();
            if waits > 0 {
                let known = status(&client).await["queued"].as_u64().unwrap();
                assert!(
                    known >= waits as u64,
                    "round {round}: {known} of {waits} who wait are known"
                );
                let (passed, late) = rush(&client, 5).await;
                assert!(
                    passed.is_empty(),
                    "round {round}: a visitor jumped the queue"
                );
                told.lock().unwrap().waiting.extend(late);
            }
            server.kill();
        }
        let told = std::mem::take(&mut *told.lock().unwrap());
        assert!(!told.waiting.is_empty(), "the room became full");
        let server = site.start();
        let client = server.client();
        // Numbers that were given to visitors who never heard of it are taken, too.
        until_status(&client, "active", LIMIT as u64).await;
        assert!(told.inside.len() > LIMIT - 8 * usize::try_from(rounds).unwrap());
    });
}
