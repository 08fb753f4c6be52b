//! No run is lost and none is sent under two keys, whatever `kill -9` comes between.
//!
//! Requests that are due at once, soon, and again and again are made while the process is killed and started again; the receiver
//! refuses some attempts and loses some answers. At the end each request that was acknowledged has arrived, and each time of it
//! under one key. `ABIDE_CRASH_ROUNDS` sets the number of rounds, `ABIDE_CRASH_SEED` the sequence of moments.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::support::{from_now, is_forgotten, program, runs};
use abide_harness::{Client, Random, Receiver, ReceiverAct, setting, until};
use http::{Method, StatusCode};
use serde_json::json;
use tokio::sync::watch;

/// The repeated request.
const TICKER: &str = "ticker";

const MOST_REQUESTS: u32 = 40;

/// So that what the receiver refuses comes again at once.
const WAITS: [u64; 20] = [0; 20];

/// A client that makes requests until the server is killed.
struct Maker {
    client: Client,
    receiver: String,
    next: Arc<AtomicU32>,
    acknowledged: Arc<Mutex<BTreeSet<u32>>>,
    made: Arc<watch::Sender<u32>>,
}

impl Maker {
    async fn run(self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let definition = json!({
                "url": format!("{}/once/{number}", self.receiver), "triggerAt": from_now(i64::from(number % 3) * 150),
                "retryAfterSeconds": WAITS,
            })
            .to_string();
            let path = format!("/once-{number}");
            let asked = self.client.try_ask(Method::POST, &path, &definition);
            // No answer: the server was killed.
            let Ok(answer) = asked.await else {
                return;
            };
            assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
            self.acknowledged.lock().unwrap().insert(number);
            self.made.send_modify(|made| *made += 1);
        }
    }
}

/// The keys under which each path was asked for.
fn keys_by_path(receiver: &Receiver) -> BTreeMap<String, BTreeSet<String>> {
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for request in receiver.received() {
        let of_path = keys.entry(request.path().to_owned()).or_default();
        of_path.insert(request.key().to_owned());
    }
    keys
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_request_is_sent_under_one_key_across_kill_9() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 4);
    let seed = setting("ABIDE_CRASH_SEED", 0x5C4E);
    println!("{rounds} rounds from seed {seed}");
    let mut random = Random::new(seed);
    let receiver = Receiver::start().await;
    let mut count = 0_u32;
    receiver.decide(move |_| {
        count += 1;
        match count % 7 {
            3 => ReceiverAct::status(500),
            5 => ReceiverAct::lost(),
            _ => ReceiverAct::status(200),
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let next = Arc::new(AtomicU32::new(0));
    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    for round in 0..rounds {
        let server = program(&data).start();
        if round == 0 {
            let ticker = json!({
                "url": receiver.url("/ticker"), "triggerEverySeconds": 1, "retryAfterSeconds": WAITS,
            });
            assert_eq!(
                server
                    .client()
                    .post(&format!("/{TICKER}"), &ticker)
                    .await
                    .status,
                201
            );
        }
        let made = Arc::new(watch::channel(0_u32).0);
        let makers = (0..3).map(|_| {
            let maker = Maker {
                client: server.client(),
                receiver: receiver.url(""),
                next: Arc::clone(&next),
                acknowledged: Arc::clone(&acknowledged),
                made: Arc::clone(&made),
            };
            tokio::spawn(maker.run())
        });
        let makers: Vec<_> = makers.collect();
        let moment = 1 + random.below(MOST_REQUESTS);
        made.subscribe()
            .wait_for(|made| *made >= moment)
            .await
            .unwrap();
        server.kill();
        for maker in makers {
            maker.await.unwrap();
        }
    }

    let server = program(&data).start();
    let client = server.client();
    let acknowledged = acknowledged.lock().unwrap().clone();
    for number in &acknowledged {
        is_forgotten(&client, &format!("once-{number}")).await;
    }
    let ticks = until("the ticks of all rounds to be delivered", async || {
        let runs = runs(&client, TICKER).await;
        let sent: Vec<_> = runs
            .iter()
            .filter(|run| run["status"] == "sent")
            .cloned()
            .collect();
        (sent.len() >= 2).then_some(sent)
    })
    .await;
    let due: BTreeSet<i64> = ticks
        .iter()
        .map(|run| run["dueAt"].as_i64().unwrap())
        .collect();
    assert_eq!(
        due.len(),
        ticks.len(),
        "a time of the ticker has two runs: {ticks:?}"
    );

    let keys = keys_by_path(&receiver);
    for number in &acknowledged {
        let sent = keys.get(&format!("/once/{number}"));
        assert_eq!(
            sent.map(BTreeSet::len),
            Some(1),
            "request {number}, seed {seed}: {sent:?}"
        );
    }
    // What was made without its client hearing of it may have been sent, but under one key as well.
    for (path, keys) in keys.iter().filter(|(path, _)| *path != "/ticker") {
        assert_eq!(keys.len(), 1, "{path}: {keys:?}");
    }
    println!(
        "{} requests, {} paths, {} ticks",
        acknowledged.len(),
        keys.len(),
        due.len()
    );
    assert!(server.stop().success(), "a clean stop");
}
