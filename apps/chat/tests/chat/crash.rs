//! Messages that a room has shown to a member survive `kill -9`.
//!
//! Members write in several rooms at once. After a random number of messages the process is killed and started again,
//! and every room's history is compared with what was shown: each message that came back to its author is there,
//! once, under the same id, and every message there was written. `ABIDE_CRASH_ROUNDS` sets the number of rounds,
//! `ABIDE_CRASH_SEED` the sequence of moments.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::support::{Guest, program};
use abide_harness::{Random, Server, setting};
use chat::{Entry, ToClient};
use tokio::sync::watch;

const ROOMS: u32 = 3;
const PEOPLE: u32 = 2;
const MOST_MESSAGES: u32 = 200;

/// What was shown of a room, by mark.
type Shown = BTreeMap<String, Entry>;

async fn write(
    mut guest: Guest,
    marks: Arc<AtomicU32>,
    shown: Arc<Mutex<Shown>>,
    news: Arc<watch::Sender<u32>>,
) {
    loop {
        let mark = marks.fetch_add(1, Ordering::Relaxed).to_string();
        if guest.say(&format!("text {mark}"), &mark).await.is_err() {
            return;
        }
        loop {
            match guest.hear().await {
                None => return,
                Some(ToClient::Said(entry)) => {
                    let own = entry.mark == mark;
                    let before = shown
                        .lock()
                        .unwrap()
                        .insert(entry.mark.clone(), entry.clone());
                    assert!(before.is_none_or(|before| before == entry));
                    if own {
                        news.send_modify(|count| *count += 1);
                        break;
                    }
                }
                Some(ToClient::SlowDown { .. }) => panic!("there is no limit here"),
                Some(_) => {}
            }
        }
    }
}

async fn history(server: &Server, room: &str) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let before = all.first().map_or(i64::MAX, |entry| entry.id);
        let answer = server
            .client()
            .get(&format!("/rooms/{room}/messages?before={before}"))
            .await;
        let older: Vec<Entry> = serde_json::from_value(answer.body["messages"].clone()).unwrap();
        if older.is_empty() {
            return all;
        }
        all.splice(0..0, older);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_that_was_shown_survives_kill_9() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 3);
    let seed = setting("ABIDE_CRASH_SEED", 0xC4A7);
    println!("{rounds} rounds from seed {seed}");
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let marks = Arc::new(AtomicU32::new(0));
    let shown: Vec<Arc<Mutex<Shown>>> = (0..ROOMS).map(|_| Arc::default()).collect();

    for round in 0..=rounds {
        let server = program(&data).arg("--burst=1000000").start();
        for (room, shown) in shown.iter().enumerate() {
            let stored = history(&server, &format!("r{room}")).await;
            let ids: Vec<i64> = stored.iter().map(|entry| entry.id).collect();
            let count = i64::try_from(ids.len()).unwrap();
            assert_eq!(ids, (1..=count).collect::<Vec<_>>(), "no holes");
            let by_mark: Shown = stored
                .iter()
                .map(|entry| (entry.mark.clone(), entry.clone()))
                .collect();
            assert_eq!(by_mark.len(), stored.len(), "each message once");
            let written = marks.load(Ordering::Relaxed);
            for entry in &stored {
                assert!(
                    entry.mark.parse::<u32>().unwrap() < written,
                    "it was never written"
                );
            }
            for (mark, entry) in shown.lock().unwrap().iter() {
                assert_eq!(
                    by_mark.get(mark),
                    Some(entry),
                    "round {round}, seed {seed}, room {room}: a message that was shown is lost"
                );
            }
        }
        if round == rounds {
            assert!(server.stop().success(), "a clean stop");
            break;
        }
        let news = Arc::new(watch::channel(0).0);
        let mut writers = Vec::new();
        for (room, shown) in shown.iter().enumerate() {
            for person in 0..PEOPLE {
                let name = format!("person{person}");
                let guest = Guest::enter(&server, &format!("r{room}"), &name, i64::MAX).await;
                let (marks, shown, news) =
                    (Arc::clone(&marks), Arc::clone(shown), Arc::clone(&news));
                writers.push(tokio::spawn(write(guest, marks, shown, news)));
            }
        }
        let moment = 1 + random.below(MOST_MESSAGES);
        news.subscribe()
            .wait_for(|count| *count >= moment)
            .await
            .unwrap();
        server.kill();
        for writer in writers {
            writer.await.unwrap();
        }
    }
    let total: usize = shown.iter().map(|shown| shown.lock().unwrap().len()).sum();
    println!("{total} messages were shown, all are there");
    assert!(total > 0);
}
