//! What a client was told survives a loss of power, on a real file system.
//!
//! `abide serve` runs on an ext4 whose disk loses what was not flushed (see `abide_powerloss`). Clients write values and
//! enqueue messages until the power is cut at some write or flush of the disk: in the midst of a commit, a checkpoint, a
//! merge of the archive, or a start. Then the process is killed, the disk comes back with what survived, and the server is
//! started again: each acknowledged value is there, one whose answer never came is there as a whole or not at all, and
//! each accepted message has arrived in the end, in the order of its key and always under the same idempotency key.
//!
//! That the checks can fail is shown by a disk that ignores flushes, and by a server whose syncs are skipped.
//!
//! `ABIDE_POWER_ROUNDS` sets the number of rounds, `ABIDE_POWER_SEED` everything that is random but threads.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use abide_harness::{Client, Program, Random, Receiver, ReceiverAct, Server, setting};
use abide_powerloss::{Disk, Mounted, missing};
use http::{Method, StatusCode};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

const DISK_BYTES: u64 = 128 << 20;
const WRITERS: u64 = 4;
/// Objects that each writer writes to, one after the other: this many that some checkpoints sync the whole file system, and
/// others single files.
const OBJECTS: u64 = 24;
/// Those of them that each round makes.
const NEW_OBJECTS: u64 = 2;
/// Longest value in bytes; a few pages, so that half of one would be seen.
const LONGEST: u32 = 12_000;
/// The power is cut after this many writes and flushes at most, and after this much time.
const MOST_CHANGES: u32 = 1000;
const LONGEST_ROUND: Duration = Duration::from_secs(5);
const ORDERING_KEYS: u64 = 3;
const OUTBOX: &str = "/outbox/orders";

/// What went wrong.
type Broken = String;

/// What clients know of one value. Number 0 is no value.
#[derive(Debug, Default)]
struct Known {
    acknowledged: u64,
    /// Numbers of writes whose answers have not come.
    unknown: Vec<u64>,
}

/// What clients know.
#[derive(Debug, Default)]
struct Ledger {
    values: BTreeMap<String, Known>,
    /// Messages that were taken, of those below `next`.
    accepted: BTreeSet<u64>,
    next: u64,
    complaints: Vec<Broken>,
}

type Shared = Arc<Mutex<Ledger>>;

/// The value that a write puts. Its text does not repeat itself, so that it takes its room in the log.
fn value(number: u64) -> Value {
    let mut random = Random::new(number);
    let text = (0..random.below(LONGEST))
        .map(|_| char::from(b' ' + u8::try_from(random.below(64)).unwrap()));
    json!({ "number": number, "text": text.collect::<String>() })
}

fn program(binary: &Path, root: &Path, checkpoint_interval: &str) -> Program {
    Program::new(binary, root.join("data"))
        // As many checkpoints and merges as can be had.
        .env("ABIDE__STORAGE__SEGMENT_BYTES", "1MiB")
        .env("ABIDE__STORAGE__CHECKPOINT_BYTES", "1MiB")
        .env("ABIDE__STORAGE__CHECKPOINT_INTERVAL", checkpoint_interval)
        .env("ABIDE__ARCHIVE__MAX_BYTES", "16MiB")
        .env("ABIDE__OBJECTS__IDLE_TIMEOUT", "1s")
        .env("ABIDE__LOG__LEVEL", "off")
        .env("RUST_LIB_BACKTRACE", "0")
        .env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "127.0.0.1")
        .env("ABIDE__OUTBOX__RETRY_BASE", "10ms")
        .env("ABIDE__OUTBOX__RETRY_MAX", "50ms")
        .env("ABIDE__OUTBOX__MAX_ATTEMPTS", "1000")
}

/// Writes these values, one after the other and from the start again, until the power is cut.
async fn write(http: Client, disk: Disk, paths: Vec<String>, ledger: Shared) {
    for path in paths.iter().cycle() {
        if disk.is_cut() {
            return;
        }
        let number = {
            let mut ledger = ledger.lock().unwrap();
            let known = ledger.values.entry(path.clone()).or_default();
            let number = known.unknown.last().unwrap_or(&known.acknowledged) + 1;
            known.unknown.push(number);
            number
        };
        let body = value(number).to_string();
        let answer = http.try_ask(Method::PUT, path, &body).await;
        let mut ledger = ledger.lock().unwrap();
        match answer {
            Ok(answer) if answer.status.is_success() => {
                let known = ledger.values.get_mut(path).unwrap();
                known.acknowledged = number;
                known.unknown.clear();
            }
            _ if disk.is_cut() => return,
            answer => ledger.complaints.push(format!("{path}: {answer:?}")),
        }
    }
}

/// Enqueues message after message until the power is cut.
async fn enqueue(http: Client, disk: Disk, url: String, ledger: Shared) {
    while !disk.is_cut() {
        let number = {
            let mut ledger = ledger.lock().unwrap();
            ledger.next += 1;
            ledger.next
        };
        let message = json!({
            "kind": "http",
            "payload": { "url": url, "body": { "json": { "number": number } } },
            "ordering_key": (number % ORDERING_KEYS).to_string(),
        });
        let path = format!("{OUTBOX}/messages");
        let answer = http
            .try_ask(Method::POST, &path, &message.to_string())
            .await;
        let mut ledger = ledger.lock().unwrap();
        match answer {
            Ok(answer) if answer.status == StatusCode::ACCEPTED => {
                ledger.accepted.insert(number);
            }
            _ if disk.is_cut() => return,
            answer => ledger.complaints.push(format!("{path}: {answer:?}")),
        }
    }
}

/// Compares all values with what clients know, and settles what they did not know.
async fn check_values(server: &Server, ledger: &Shared) -> Result<(), Broken> {
    let http = server.client();
    let mut values = std::mem::take(&mut ledger.lock().unwrap().values);
    for (path, known) in &mut values {
        let answer = http
            .try_ask(Method::GET, path, "")
            .await
            .map_err(|error| format!("{path}: {error}"))?;
        let found = match answer.status {
            StatusCode::NOT_FOUND => 0,
            StatusCode::OK => answer.body["number"].as_u64().unwrap_or(0),
            _ => return Err(format!("{path}: {answer:?}")),
        };
        if found != known.acknowledged && !known.unknown.contains(&found) {
            return Err(format!(
                "{path}: an acknowledged write is lost: {found}, {known:?}"
            ));
        }
        if found != 0 && answer.body != value(found) {
            return Err(format!("{path}: write {found} is not whole"));
        }
        known.acknowledged = found;
        known.unknown.clear();
    }
    ledger.lock().unwrap().values = values;
    Ok(())
}

/// A server, its disk and its clients.
struct World {
    seed: u64,
    random: Random,
    disk: Disk,
    ledger: Shared,
    receiver: Receiver,
    binary: PathBuf,
    /// Whether the disk keeps its word.
    flushes_count: bool,
}

impl World {
    async fn new(seed: u64, flushes_count: bool) -> Self {
        let receiver = Receiver::start().await;
        let mut fate = Random::new(seed + 1);
        receiver.decide(move |_| match fate.below(8) {
            0 => ReceiverAct::status(503).retry_after(0),
            1 => ReceiverAct::lost(),
            _ => ReceiverAct::status(200),
        });
        Self {
            seed,
            random: Random::new(seed),
            disk: Mounted::format(DISK_BYTES).unwrap(),
            ledger: Shared::default(),
            receiver,
            binary: env!("CARGO_BIN_EXE_abide").into(),
            flushes_count,
        }
    }

    /// What was found missing within this many rounds.
    async fn found_out(&mut self, rounds: u64) -> Option<Broken> {
        for round in 1..=rounds {
            if let Err(broken) = self.round(round).await {
                return Some(broken);
            }
        }
        None
    }

    /// Starts, checks what is there, works, loses power.
    async fn round(&mut self, round: u64) -> Result<(), Broken> {
        let mounted = Mounted::new(&self.disk).map_err(|error| error.to_string())?;
        let at_start = self.flushes_count && self.random.below(4) == 0;
        if at_start {
            self.disk.cut_after(u64::from(self.random.below(60)));
        }
        let interval = ["50ms", "300ms", "1s"][self.random.below(3) as usize];
        match program(&self.binary, &mounted.root(), interval).try_start() {
            Err(_) if self.disk.is_cut() => {}
            Err(said) => return Err(format!("the server does not start: {said}")),
            Ok(server) => {
                if !at_start {
                    check_values(&server, &self.ledger).await?;
                    self.disk
                        .cut_after(1 + u64::from(self.random.below(MOST_CHANGES)));
                }
                if !self.flushes_count {
                    self.disk.ignore_flushes();
                }
                self.work_until_cut(server, round).await;
            }
        }
        mounted.unmount().map_err(|error| error.to_string())?;
        self.lose_power(round);
        match self.ledger.lock().unwrap().complaints.pop() {
            Some(complaint) => Err(complaint),
            None => Ok(()),
        }
    }

    async fn work_until_cut(&mut self, server: Server, round: u64) {
        let mut clients = Vec::new();
        for writer in 0..WRITERS {
            let path = |number| {
                let owner = if number < NEW_OBJECTS { round } else { 0 };
                format!("/kv/{owner}-{writer}-{number}/value")
            };
            clients.push(tokio::spawn(write(
                server.client(),
                self.disk.clone(),
                (0..OBJECTS).map(path).collect(),
                Arc::clone(&self.ledger),
            )));
        }
        clients.push(tokio::spawn(enqueue(
            server.client(),
            self.disk.clone(),
            self.receiver.url("/orders"),
            Arc::clone(&self.ledger),
        )));
        let begun = Instant::now();
        while !self.disk.is_cut() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if begun.elapsed() > LONGEST_ROUND {
                self.disk.cut_after(0);
            }
        }
        // What it says while its disk fails must be true, too.
        tokio::time::sleep(Duration::from_millis(u64::from(self.random.below(20)))).await;
        server.kill();
        for client in clients {
            client.await.unwrap();
        }
    }

    fn lose_power(&mut self, round: u64) {
        self.disk = self
            .disk
            .after_power_loss(self.seed.wrapping_mul(1_000_003) + round);
    }

    /// Lets all messages arrive, stops the server, and looks into its files, after another loss of power.
    async fn end(mut self) -> Result<(), Broken> {
        let mounted = Mounted::new(&self.disk).map_err(|error| error.to_string())?;
        let server = program(&self.binary, &mounted.root(), "1s").try_start()?;
        check_values(&server, &self.ledger).await?;
        until_idle(&server.client()).await?;
        self.check_messages()?;
        if !server.stop().success() {
            return Err("no clean stop".to_owned());
        }
        self.disk.cut_after(0);
        mounted.unmount().map_err(|error| error.to_string())?;
        self.lose_power(u64::MAX >> 1);

        let mounted = Mounted::new(&self.disk).map_err(|error| error.to_string())?;
        let files = sqlite_files(&mounted.root().join("data/objects"));
        let ledger = self.ledger.lock().unwrap();
        let written = ledger
            .values
            .values()
            .filter(|known| known.acknowledged > 0);
        // The outbox is an object as well.
        if files.len() < written.count() + usize::from(!ledger.accepted.is_empty()) {
            return Err(format!("{} files are not all objects", files.len()));
        }
        files.iter().try_for_each(|file| is_sound(file))?;
        let verified = Command::new(env!("CARGO_BIN_EXE_abide"))
            .args(["verify", "--data"])
            .arg(mounted.root().join("data"))
            .output()
            .unwrap();
        if !verified.status.success() {
            return Err(format!("abide verify: {verified:?}"));
        }
        println!(
            "{} values of {} objects, {} messages in {} requests",
            ledger
                .values
                .values()
                .map(|known| known.acknowledged)
                .sum::<u64>(),
            files.len(),
            ledger.accepted.len(),
            self.receiver.received().len()
        );
        Ok(())
    }

    fn check_messages(&self) -> Result<(), Broken> {
        let mut arrived: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut keys: BTreeMap<u64, String> = BTreeMap::new();
        for request in self.receiver.received() {
            let number = request.json()["number"].as_u64().unwrap();
            arrived
                .entry(number % ORDERING_KEYS)
                .or_default()
                .push(number);
            let key = keys
                .entry(number)
                .or_insert_with(|| request.key().to_owned());
            if key != request.key() {
                return Err(format!(
                    "message {number} has keys {key} and {}",
                    request.key()
                ));
            }
        }
        for number in &self.ledger.lock().unwrap().accepted {
            if !keys.contains_key(number) {
                return Err(format!("accepted message {number} is lost"));
            }
        }
        for numbers in arrived.values() {
            if !numbers.is_sorted() {
                return Err(format!("out of order: {numbers:?}"));
            }
        }
        let different = keys.values().collect::<BTreeSet<_>>();
        if different.len() != keys.len() {
            return Err("two messages have one key".to_owned());
        }
        Ok(())
    }
}

async fn until_idle(client: &Client) -> Result<(), Broken> {
    let begun = Instant::now();
    loop {
        let counts = client.get(OUTBOX).await.body["counts"].clone();
        if counts["queued"] == 0 && counts["sending"] == 0 && counts["failed"] == 0 {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_mins(4) {
            return Err(format!("messages do not leave: {counts}"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn sqlite_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sqlite_files(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "sqlite")
        {
            found.push(path);
        }
    }
    found
}

/// Whether an ordinary SQLite finds nothing wrong with a file.
fn is_sound(file: &Path) -> Result<(), Broken> {
    let ask = || {
        Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?.query_row(
            "PRAGMA integrity_check",
            (),
            |row| row.get::<_, String>(0),
        )
    };
    match ask() {
        Ok(said) if said == "ok" => Ok(()),
        said => Err(format!("{}: {said:?}", file.display())),
    }
}

fn need_a_disk() {
    if let Some(what) = missing() {
        panic!("this machine cannot mount a disk that loses power: it has no {what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root, /dev/fuse and loop devices"]
async fn what_was_acknowledged_survives_a_loss_of_power() {
    need_a_disk();
    let rounds = setting("ABIDE_POWER_ROUNDS", 5);
    let seed = setting("ABIDE_POWER_SEED", 1);
    println!("{rounds} rounds from seed {seed}");
    let mut world = World::new(seed, true).await;
    if let Some(broken) = world.found_out(rounds).await {
        panic!("seed {seed}: {broken}");
    }
    if let Err(broken) = world.end().await {
        panic!("seed {seed}, at the end: {broken}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root, /dev/fuse and loop devices"]
async fn a_disk_that_ignores_flushes_is_found_out() {
    need_a_disk();
    for seed in 1..=3 {
        // A round finds what the one before has lost.
        let said = World::new(seed, false).await.found_out(6).await;
        println!("seed {seed}: {said:?}");
        assert!(said.is_some(), "seed {seed}: nothing was found missing");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root, /dev/fuse, loop devices and strace"]
async fn a_server_that_skips_its_syncs_is_found_out() {
    need_a_disk();
    let dir = tempfile::tempdir().unwrap();
    for call in ["fdatasync", "syncfs"] {
        // strace answers this system call in the kernel's place, and looks at no other.
        let script = format!(
            "#!/bin/sh\nexec strace -D -f -qq --seccomp-bpf -o /dev/null -e trace={call} -e inject={call}:retval=0 {} \"$@\"\n",
            env!("CARGO_BIN_EXE_abide"),
        );
        let binary = dir.path().join(call);
        std::fs::write(&binary, script).unwrap();
        std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
        let helps = Command::new(&binary).arg("--help").output().unwrap();
        assert!(helps.status.success(), "it runs under strace: {helps:?}");
        let mut world = World::new(1, true).await;
        world.binary = binary;
        let said = world.found_out(30).await;
        println!("{call}: {said:?}");
        assert!(
            said.is_some_and(|said| said.contains("/value: ") || said.contains("does not start")),
            "{call}: nothing was found missing"
        );
    }
}
