//! Processes that are killed and suspended, and shards that move, while clients use lists: what they saw is linearizable, and nothing that was
//! acknowledged is lost.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, sleep},
    time::{Duration, Instant},
};

use abide_cluster::Shard;
use abide_cluster_sim::history::{History, Request};
use fastrand::Rng;

use crate::cluster::{Answer, Client, Cluster};

const MACHINES: usize = 3;
/// The shards that clients use. All others are taken over with them.
const SHARDS: u16 = 8;
const CLIENTS: u64 = 4;
const STORM: Duration = Duration::from_secs(45);
/// Enough for the last takeover.
const CALM: Duration = Duration::from_mins(1);
const PAUSE_OF_CLIENTS: Duration = Duration::from_millis(2);

/// Something goes wrong.
fn trouble(cluster: &Cluster, rng: &mut Rng) {
    let machine = &cluster.machines[rng.usize(..MACHINES)];
    match rng.u8(..26) {
        0..4 => machine.kill(),
        // A process is suspended, perhaps for longer than its lease.
        4..7 => {
            machine.suspend();
            sleep(Duration::from_millis(rng.u64(100..11_000)));
            machine.go_on();
        }
        // Shards move.
        7..13 => {
            let to = cluster.machines[rng.usize(..MACHINES)].status();
            if let (Some(to), Some(mut from)) = (to, machine.connect()) {
                from.give(Shard(rng.u16(..SHARDS)), to.session);
            }
        }
        13..16 => cluster.sql(&format!(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'abide %' and random() < {}",
            rng.f64()
        )),
        16..18 => {
            let table = rng.choice(["lane", "lane", "session", "shard"]).unwrap();
            let hold = format!(
                "begin; select from abide_cluster.{table} for update; select pg_sleep({}); commit",
                rng.f64() * 3.0
            );
            thread::scope(|scope| {
                scope.spawn(|| cluster.sql(&hold));
                // While nothing can be appended, or that would have gone unnoticed.
                sleep(Duration::from_millis(rng.u64(100..1_500)));
                machine.kill();
            });
        }
        18 => {
            let mut postgres = cluster.postgres.lock().unwrap();
            postgres.kill();
            postgres.start_again();
        }
        // Runs cannot be read or written.
        19 => cluster.without_runs(|| {
            if rng.bool() {
                machine.kill();
            }
            sleep(Duration::from_millis(rng.u64(..5_000)));
        }),
        20 => machine.lose_directory(),
        21..24 => {
            if let Some(mut client) = machine.connect() {
                client.leave();
            }
        }
        _ => sleep(Duration::from_millis(rng.u64(..2_000))),
    }
}

/// A client that asks the process that should have a shard, and otherwise another.
fn use_lists(cluster: &Cluster, world: &World, mut rng: Rng, client: u64) {
    let mut connections: Vec<Option<Client>> = (0..MACHINES).map(|_| None).collect();
    let mut owners = [0; SHARDS as usize];
    let mut values = client << 32..;
    while !world.is_calm.load(Ordering::Acquire) {
        sleep(PAUSE_OF_CLIENTS);
        let shard = rng.u16(..SHARDS);
        let owner = &mut owners[usize::from(shard)];
        let connection = &mut connections[*owner];
        if connection.is_none() {
            *connection = cluster.machines[*owner].connect();
        }
        let Some(open) = connection else {
            *owner = rng.usize(..MACHINES);
            continue;
        };
        let value = values.next().unwrap();
        let (request, text) = if rng.bool() {
            (Request::Add(value), format!("add {shard} {value}"))
        } else {
            (Request::Read, format!("read {shard}"))
        };
        let number = world.sent(Shard(shard), request);
        match open.list(&text) {
            Ok(Answer::List(by, list)) => {
                let now = world.now();
                let mut history = world.history.lock().unwrap();
                history.answered(number, by, list, now);
            }
            Ok(Answer::No) => *owner = rng.usize(..MACHINES),
            Err(_) => {
                *connection = None;
                *owner = rng.usize(..MACHINES);
            }
        }
    }
}

struct World {
    begun: Instant,
    history: Mutex<History>,
    is_calm: AtomicBool,
}

impl World {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn sent(&self, shard: Shard, request: Request) -> usize {
        let mut history = self.history.lock().unwrap();
        history.sent(shard, request, self.now())
    }
}

#[test]
#[ignore = "needs PostgreSQL"]
fn what_processes_acknowledge_is_linearizable_and_is_not_lost() {
    let seed = fastrand::u64(..);
    println!("seed {seed}, which determines the troubles and not their outcome");
    let mut rng = Rng::with_seed(seed);
    let cluster = Arc::new(Cluster::start(MACHINES));
    cluster.until_whole(CALM);
    let world = Arc::new(World {
        begun: Instant::now(),
        history: Mutex::default(),
        is_calm: AtomicBool::new(false),
    });
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let (cluster, world, rng) = (cluster.clone(), world.clone(), rng.fork());
        clients.push(thread::spawn(move || {
            use_lists(&cluster, &world, rng, client);
        }));
    }
    while world.now() < STORM {
        sleep(Duration::from_millis(rng.u64(..2_500)));
        trouble(&cluster, &mut rng);
    }
    cluster.until_whole(CALM);
    world.is_calm.store(true, Ordering::Release);
    for client in clients {
        client.join().unwrap();
    }
    let history = world.history.lock().unwrap();
    for shard in 0..SHARDS {
        history
            .check(Shard(shard), &last_list(&cluster, shard))
            .unwrap();
    }
    let (answers, ends) = (history.answers(), cluster.ends());
    let runs = cluster.count_runs();
    println!("{answers} answers, {runs} runs; processes that were not killed ended with {ends:?}");
    assert!(answers > 500, "only {answers} answers");
    assert!(runs > 3, "only {runs} runs");
    // 0: it has left; 1, 3: the database did not answer; 2: the session has ended.
    assert!(ends.iter().all(|end| (0..4).contains(end)), "{ends:?}");
}

fn last_list(cluster: &Cluster, shard: u16) -> Vec<u64> {
    let begun = Instant::now();
    while begun.elapsed() < CALM {
        for machine in &cluster.machines {
            let answer = machine
                .connect()
                .and_then(|mut client| client.list(&format!("read {shard}")).ok());
            if let Some(Answer::List(_, list)) = answer {
                return list;
            }
        }
        sleep(PAUSE_OF_CLIENTS);
    }
    panic!("shard {shard} is not served");
}
