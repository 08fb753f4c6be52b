//! What a client was told survives `kill -9`.
//!
//! Clients assign and move occupants at once on several flights. After a random number of acknowledged writes the process
//! is killed, started again, and every seat map compared with what was acknowledged: an acknowledged write is there; one
//! whose answer never came is wholly there or wholly absent. `ABIDE_CRASH_ROUNDS` sets the number of rounds,
//! `ABIDE_CRASH_SEED` the sequence of moments.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::support::program;
use abide_harness::{Client, Random, setting};
use http::{Method, StatusCode};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use tokio::sync::watch;

const FLIGHTS: u32 = 4;
const CLIENTS: u32 = 16;
const COLUMNS: &str = "ABCDEFGHIJKL";
const ROWS: u32 = 100;
/// A round ends after this many acknowledged writes at most; fewer than the seats of a flight.
const MOST_WRITES: u32 = 300;

/// What clients know of one occupant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    /// The seat of the newest acknowledged write.
    acknowledged: Option<String>,
    /// The seat of a write whose answer has not come.
    attempted: Option<String>,
}

/// What clients know of one flight, by occupant.
type Ledger = BTreeMap<String, Known>;

fn path(round: u64, flight: u32) -> String {
    format!("/flights/R{round}-{flight}/2026-12-01")
}

fn seat(index: u32) -> String {
    let columns = u32::try_from(COLUMNS.len()).expect("few columns");
    let letter = COLUMNS.as_bytes()[(index % columns) as usize] as char;
    format!("{}{letter}", index / columns + 1)
}

/// One client: gives seats that no other client asks for to its own occupants, now and then moving one, until the
/// server no longer answers.
async fn write(
    http: Client,
    base: String,
    who: u32,
    seats: Arc<AtomicU32>,
    ledger: Arc<Mutex<Ledger>>,
    acks: Arc<watch::Sender<u32>>,
) {
    for step in 0.. {
        let index = seats.fetch_add(1, Ordering::Relaxed);
        if index >= ROWS * 12 {
            return;
        }
        // Every third write moves the occupant of the one before.
        let occupant = format!(
            "client {who} passenger {}",
            if step % 3 == 2 { step - 1 } else { step }
        );
        let wanted = seat(index);
        ledger
            .lock()
            .expect("no panics")
            .entry(occupant.clone())
            .or_default()
            .attempted = Some(wanted.clone());
        let body = json!({ "occupant": occupant }).to_string();
        match http
            .try_ask(Method::POST, &format!("{base}/seats/{wanted}"), &body)
            .await
        {
            Ok(answer) if answer.status == StatusCode::OK => {
                let known = Known {
                    acknowledged: Some(wanted),
                    attempted: None,
                };
                ledger.lock().expect("no panics").insert(occupant, known);
                acks.send_modify(|count| *count += 1);
            }
            Ok(answer) => panic!("a free seat was refused: {answer:?}"),
            Err(_killed) => return,
        }
    }
}

/// Compares a flight's seats with what clients know, and settles what they did not know.
fn check(context: &str, seats: &BTreeMap<String, String>, ledger: &mut Ledger) {
    for (occupant, known) in ledger.iter_mut() {
        let sits = seats
            .iter()
            .filter(|(_, name)| *name == occupant)
            .map(|(seat, _)| seat)
            .collect::<Vec<_>>();
        assert!(sits.len() <= 1, "{context}: {occupant} sits in {sits:?}");
        let sits = sits.first().map(|seat| (*seat).clone());
        let may_be =
            sits == known.acknowledged || (known.attempted.is_some() && sits == known.attempted);
        assert!(
            may_be,
            "{context}: {occupant} sits in {sits:?}; known is {known:?}"
        );
        *known = Known {
            acknowledged: sits,
            attempted: None,
        };
    }
    for (seat, occupant) in seats {
        assert!(
            ledger.contains_key(occupant),
            "{context}: {seat} was never given to {occupant}"
        );
    }
}

async fn read(http: &Client, path: &str) -> BTreeMap<String, String> {
    let answer = http.get(path).await;
    assert_eq!(
        answer.status,
        StatusCode::OK,
        "an acknowledged seat map is gone: {answer:?}"
    );
    let seats = answer.body["seats"].as_array().expect("a seat map");
    assert_eq!(seats.len(), (ROWS * 12) as usize);
    seats
        .iter()
        .filter_map(|entry| {
            Some((
                entry["seat"].as_str()?.to_owned(),
                entry["occupant"].as_str()?.to_owned(),
            ))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_seat_survives_kill_9_in_a_plain_sqlite_file() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 5);
    let seed = setting("ABIDE_CRASH_SEED", 0x5EA7);
    println!("{rounds} rounds from seed {seed}");
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut ledgers: BTreeMap<String, Ledger> = BTreeMap::new();

    for round in 0..rounds {
        let server = program(&data).start();
        let http = server.client();
        // What the rounds before left, the newest of them after its kill.
        for (path, ledger) in ledgers.iter_mut().rev().take(2 * FLIGHTS as usize) {
            check(
                &format!("round {round}, seed {seed}, {path}"),
                &read(&http, path).await,
                ledger,
            );
        }
        let acks = Arc::new(watch::channel(0).0);
        let mut writers = Vec::new();
        let mut open = Vec::new();
        for flight in 0..FLIGHTS {
            let base = path(round, flight);
            let made = http
                .put(&base, &json!({ "rows": ROWS, "columns": COLUMNS }))
                .await;
            assert_eq!(made.status, StatusCode::CREATED);
            let seats = Arc::new(AtomicU32::new(0));
            let ledger = Arc::new(Mutex::new(Ledger::new()));
            for who in 0..CLIENTS / FLIGHTS {
                let (seats, ledger, acks) =
                    (Arc::clone(&seats), Arc::clone(&ledger), Arc::clone(&acks));
                writers.push(tokio::spawn(write(
                    http.clone(),
                    base.clone(),
                    who,
                    seats,
                    ledger,
                    acks,
                )));
            }
            open.push((base, ledger));
        }
        let moment = random.below(MOST_WRITES);
        acks.subscribe()
            .wait_for(|count| *count >= moment)
            .await
            .unwrap();
        server.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        for (path, ledger) in open {
            ledgers.insert(path, std::mem::take(&mut *ledger.lock().unwrap()));
        }
    }

    let server = program(&data).start();
    let http = server.client();
    for (path, ledger) in &mut ledgers {
        check(
            &format!("at the end, seed {seed}, {path}"),
            &read(&http, path).await,
            ledger,
        );
    }
    drop(http);
    assert!(server.stop().success(), "a clean stop");

    let in_files = seat_maps_in(&data);
    let acknowledged = ledgers
        .values()
        .map(|ledger| {
            let seated = ledger
                .iter()
                .filter_map(|(name, known)| Some((known.acknowledged.clone()?, name.clone())));
            seated.collect::<BTreeSet<_>>()
        })
        .collect::<Vec<_>>();
    assert_eq!(
        in_files.len(),
        acknowledged.len(),
        "one file for each flight"
    );
    for seats in &acknowledged {
        assert!(
            in_files.contains(seats),
            "a flight's file does not hold what was acknowledged"
        );
    }
}

/// The taken seats of every object file under a directory, read by an ordinary SQLite.
fn seat_maps_in(dir: &Path) -> Vec<BTreeSet<(String, String)>> {
    let mut maps = Vec::new();
    for file in sqlite_files(dir) {
        let database = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .expect("a database");
        let sound: String = database
            .query_row("PRAGMA integrity_check", (), |row| row.get(0))
            .expect("an answer");
        assert_eq!(sound, "ok", "{}", file.display());
        let Ok(mut query) =
            database.prepare("SELECT seat, occupant FROM seats WHERE occupant IS NOT NULL")
        else {
            continue;
        };
        let rows = query
            .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))
            .expect("rows");
        maps.push(rows.collect::<Result<_, _>>().expect("rows of text"));
    }
    maps
}

fn sqlite_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sqlite_files(&path));
        } else if std::fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"SQLite format 3\0")) {
            found.push(path);
        }
    }
    found
}
