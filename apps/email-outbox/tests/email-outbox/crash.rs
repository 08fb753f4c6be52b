//! No mail is lost by `kill -9`, and the service, which behaves badly, is given each once.
//!
//! Mails are composed while the process is killed at random moments and started again. In the end every mail that was
//! answered is sent, and the double, which tells repeats by their key, has taken each exactly once. `ABIDE_CRASH_ROUNDS`
//! sets the number of rounds, `ABIDE_CRASH_SEED` the sequence of moments.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::support::program;
use abide_harness::{AcsMischief, AcsOptions, AcsServer, Client, Random, setting, until};
use serde_json::json;

/// Mails that are composed in a round, at most; composing stops when the server is gone.
const MOST: u32 = 20;

async fn compose(client: Client, round: u64, answered: &mut BTreeSet<String>) {
    for number in 0..MOST {
        let subject = format!("mail {round}-{number}");
        let draft = json!({ "to": ["ada@example.com"], "subject": subject, "text": "Hello." });
        let sent = client
            .try_ask(http::Method::POST, "/api/mails", &draft.to_string())
            .await;
        match sent {
            Ok(answer) if answer.status == 202 => answered.insert(subject),
            _ => return,
        };
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mail_survives_kill_9_and_goes_out_once() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 3);
    let seed = setting("ABIDE_CRASH_SEED", 0xE3A11);
    println!("{rounds} rounds from seed {seed}");
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let double = AcsServer::start(AcsOptions {
        poll_after: Some(0),
        mischief: AcsMischief {
            seed,
            // Those that ask for patience or are polled again cost seconds, and the moments of the kills are what matters.
            throttled: 1,
            throttled_but_taken: 2,
            unavailable: 5,
            lost: 15,
            bad_polls: 3,
            failed: 0,
            longest: 1,
        },
        ..AcsOptions::default()
    })
    .await;
    let mut answered = BTreeSet::new();
    for round in 0..rounds {
        let server = program(&data, &double).start();
        let client = server.client();
        let moment = Duration::from_millis(u64::from(random.below(300)));
        let killer = tokio::spawn(async move {
            tokio::time::sleep(moment).await;
            server.kill();
        });
        compose(client, round, &mut answered).await;
        killer.await.unwrap();
    }
    let server = program(&data, &double).start();
    let client = server.client();
    // Retries take their time, so what counts is that it continues.
    let mut left = i64::MAX;
    while left > 0 {
        left = until("fewer mails to be left", async || {
            let counts = client.get("/api/overview").await.body["counts"].clone();
            assert_eq!(counts["failed"], 0, "nothing is given up");
            let now = counts["queued"].as_i64()? + counts["sending"].as_i64()?;
            (now < left).then_some(now)
        })
        .await;
    }
    let mut taken: BTreeMap<String, u32> = BTreeMap::new();
    for mail in double.mails() {
        let subject = mail.mail["content"]["subject"].as_str().unwrap().to_owned();
        *taken.entry(subject).or_default() += 1;
    }
    for subject in &answered {
        assert!(
            taken.contains_key(subject),
            "seed {seed}: {subject} is lost"
        );
    }
    let twice: Vec<_> = taken.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "seed {seed}: sent twice: {twice:?}");
    println!("{} mails, each once", taken.len());
    assert!(server.stop().success(), "a clean stop");
}
