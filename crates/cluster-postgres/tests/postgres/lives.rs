//! Sessions that live on a real server: they append, take shards over and give them away, while processes, connections and the server
//! are ended or suspended.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use abide_cluster::{Connection, Ended, Part, Reads, SessionId, Shard, Stored, Tenancy};
use abide_cluster_postgres::{Database, Error, Lines};
use abide_cluster_sim::{
    Node, Record,
    history::{History, Request},
    lists::Logs,
};
use fastrand::Rng;
use tokio::{task::JoinSet, time::sleep};

use crate::support::{Server, encode, read};

const HOSTS: usize = 3;
/// The shards that clients use. All others are taken over with them.
const SHARDS: u16 = 6;
const STORM: Duration = Duration::from_secs(40);
/// Enough for the last takeover, and for the last runs.
const CALM: Duration = Duration::from_mins(1);
const MOMENT: Duration = Duration::from_millis(10);
const PAUSE_OF_CLIENTS: Duration = Duration::from_millis(3);

/// What all hosts share.
struct World {
    begun: Instant,
    database: Database,
    history: Mutex<History>,
    /// The object store: the records of runs, by their places.
    store: Mutex<BTreeMap<String, Vec<Record>>>,
    ended: Mutex<Vec<Ended>>,
    hosts: [Host; HOSTS],
}

/// A machine.
#[derive(Default)]
struct Host {
    process: Mutex<Option<Arc<Process>>>,
    paused_until: Mutex<Duration>,
}

/// A process, with its session.
struct Process {
    host: usize,
    node: Mutex<Node>,
    lines: Lines,
}

impl World {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn process(&self, host: usize) -> Option<Arc<Process>> {
        self.hosts[host].process.lock().unwrap().clone()
    }

    /// Returns once the host is not suspended.
    async fn awake(&self, host: usize) {
        loop {
            let until = *self.hosts[host].paused_until.lock().unwrap();
            match until.checked_sub(self.now()) {
                None => return,
                Some(left) => sleep(left).await,
            }
        }
    }

    /// Runs the processes of a host, one after the other.
    async fn live(self: Arc<Self>, host: usize) {
        for attempt in 1.. {
            let begun = self
                .database
                .begin(host as u128, attempt, fastrand::u128(..))
                .await;
            let Ok(Some(me)) = begun else {
                sleep(MOMENT).await;
                continue;
            };
            let process = Arc::new(Process {
                host,
                node: Mutex::new(Node::start(me, Reads::Leased, self.now())),
                lines: Lines::new(self.database.clone(), me),
            });
            *self.hosts[host].process.lock().unwrap() = Some(process.clone());
            let mut tasks = JoinSet::new();
            for connection in Connection::ALL {
                tasks.spawn(talk(self.clone(), process.clone(), connection));
            }
            tasks.spawn(adopt(self.clone(), process.clone()));
            tasks.spawn(release(self.clone(), process.clone()));
            tasks.spawn(archive(self.clone(), process.clone()));
            // One of them ends when the session has ended, or the process is killed.
            tasks.join_next().await;
            tasks.shutdown().await;
            if let Some(ended) = process.node().session.ended() {
                self.ended.lock().unwrap().push(ended);
            }
        }
    }

    /// The records of these shards in runs, in order, for a session.
    async fn history(
        &self,
        me: SessionId,
        shard: impl Fn(Shard) -> bool,
    ) -> Result<Vec<Record>, Error> {
        let runs = self.database.runs(me, 0).await?;
        let runs = runs.ok_or_else(|| Error::Unavailable("it is fenced".to_owned()))?;
        let store = self.store.lock().unwrap();
        let records = runs.iter().flat_map(|run| &store[&run.place]);
        let own = records.filter(|record| shard(record.tenancy.shard));
        Ok(own.copied().collect())
    }

    async fn inherited(&self, parts: &[(Shard, Part)]) -> Result<Vec<Record>, Error> {
        let mut records = Vec::new();
        for (shard, part) in parts {
            records.extend(read(&self.database, *shard, part).await?);
        }
        Ok(records)
    }
}

impl Process {
    fn node(&self) -> MutexGuard<'_, Node> {
        self.node.lock().unwrap()
    }
}

/// Whether a process runs: it has not ended, and no other has taken its place.
fn runs(world: &World, process: &Arc<Process>) -> bool {
    let current = world.process(process.host);
    let is_current = current.is_some_and(|current| Arc::ptr_eq(&current, process));
    is_current && process.node().session.ended().is_none()
}

/// Drives one connection.
async fn talk(world: Arc<World>, process: Arc<Process>, connection: Connection) {
    while runs(&world, &process) {
        world.awake(process.host).await;
        let said = {
            let mut node = process.node();
            let statement = node.session.next(connection, world.now());
            statement.map(|statement| (encode(&node.group(&statement)), statement))
        };
        let Some((group, statement)) = said else {
            sleep(MOMENT).await;
            continue;
        };
        let outcome = process.lines.execute(connection, &statement, &group).await;
        world.awake(process.host).await;
        let now = world.now();
        process.node().session.answered(connection, outcome, now);
    }
}

async fn release(world: Arc<World>, process: Arc<Process>) {
    while runs(&world, &process) {
        world.awake(process.host).await;
        {
            let mut node = process.node();
            let by = node.session.id();
            let replies = node.released(world.now());
            let mut history = world.history.lock().unwrap();
            for reply in replies {
                history.answered(reply.operation, by, reply.list, world.now());
            }
        }
        sleep(MOMENT).await;
    }
}

async fn adopt(world: Arc<World>, process: Arc<Process>) {
    while runs(&world, &process) {
        world.awake(process.host).await;
        let new: Vec<(Tenancy, Vec<Part>)> = {
            let node = process.node();
            let parts = |tenancy: Tenancy| {
                let tenure = node.session.tenures().get(tenancy.shard)?;
                Some((tenancy, tenure.parts.clone()))
            };
            node.to_adopt().into_iter().filter_map(parts).collect()
        };
        let adopted = async {
            let mut left = BTreeMap::new();
            for (tenancy, parts) in &new {
                let shard = tenancy.shard;
                let parts: Vec<_> = parts.iter().map(|part| (shard, *part)).collect();
                left.insert(shard, world.inherited(&parts).await?);
            }
            let me = process.node().session.id();
            let published = world.history(me, |shard| left.contains_key(&shard));
            let published = published.await?;
            for record in published {
                left.entry(record.tenancy.shard).or_default().push(record);
            }
            Ok::<_, Error>(left)
        };
        if !new.is_empty()
            && let Ok(mut left) = adopted.await
        {
            for (tenancy, _) in &new {
                let records = left.remove(&tenancy.shard).unwrap_or_default();
                let adopted = process
                    .node()
                    .adopt(*tenancy, records, &mut Logs::default());
                adopted.unwrap();
            }
        }
        sleep(MOMENT).await;
    }
}

async fn archive(world: Arc<World>, process: Arc<Process>) {
    while runs(&world, &process) {
        sleep(Duration::from_millis(fastrand::u64(100..1_500))).await;
        world.awake(process.host).await;
        let run = {
            let session = &mut process.node().session;
            let until = session.durable();
            session.plan_run(until)
        };
        let Some(run) = run else { continue };
        let inherited = loop {
            match world.inherited(&run.parts).await {
                Ok(records) => break records,
                Err(_) if runs(&world, &process) => sleep(MOMENT).await,
                Err(_) => return,
            }
        };
        let mut node = process.node();
        let records = node.run(&run, inherited);
        let place = format!("{:?} {}", node.session.id(), run.number);
        world.store.lock().unwrap().insert(place.clone(), records);
        let about = String::new();
        node.session
            .uploaded(run.number, Some(Stored { about, place }));
    }
}

/// Something goes wrong.
async fn trouble(world: &World, server: &mut Server, rng: &mut Rng) {
    let host = rng.usize(..HOSTS);
    match rng.u8(..20) {
        // A process is killed.
        0..3 => *world.hosts[host].process.lock().unwrap() = None,
        // One is suspended, perhaps for longer than its lease.
        3..6 => {
            let until = world.now() + Duration::from_millis(rng.u64(100..11_000));
            *world.hosts[host].paused_until.lock().unwrap() = until;
        }
        // A shard moves.
        6..12 => {
            let live: Vec<_> = (0..HOSTS).filter_map(|host| world.process(host)).collect();
            let Some(to) = rng.choice(&live).map(|to| to.node().session.id()) else {
                return;
            };
            let Some(from) = world.process(host) else {
                return;
            };
            let mut node = from.node();
            let shard = Shard(rng.u16(..SHARDS));
            let generation = node.session.tenures().get(shard).map(|own| own.generation);
            if let Some(generation) = generation {
                node.close(Tenancy { shard, generation }, to);
            }
        }
        // Connections break.
        12..16 => {
            let end = format!(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'abide %' and random() < {}",
                rng.f64()
            );
            server.admin.batch_execute(&end).await.unwrap();
        }
        // Someone holds a lock.
        16..18 => {
            let table = rng.choice(["lane", "session", "shard"]).unwrap();
            let hold = format!(
                "begin; select from abide_cluster.{table} for update; select pg_sleep({}); commit",
                rng.f64() * 3.0
            );
            // It may meet a deadlock.
            if server.admin.batch_execute(&hold).await.is_err() {
                server.admin.batch_execute("rollback").await.unwrap();
            }
        }
        // The server is killed.
        18 => {
            server.postgres.kill();
            server.postgres.start_again();
            server.admin = crate::support::admin(&server.postgres).await;
        }
        _ => sleep(Duration::from_millis(rng.u64(..2_000))).await,
    }
}

/// A client that sends requests to the node that should answer, and now and then to another.
async fn ask(world: Arc<World>, mut rng: Rng, values: std::ops::Range<u64>) {
    for value in values {
        sleep(PAUSE_OF_CLIENTS).await;
        let shard = Shard(rng.u16(..SHARDS));
        let request = if rng.bool() {
            Request::Add(value)
        } else {
            Request::Read
        };
        let serves = |process: &Arc<Process>| {
            let node = process.node();
            let own = node.session.tenures().get(shard).map(|own| own.generation);
            own.is_some_and(|generation| {
                node.session.tenures().admits(Tenancy { shard, generation })
            })
        };
        let processes = || (0..HOSTS).filter_map(|host| world.process(host));
        // A process that was suspended may believe that it owns the shard.
        let owners: Vec<_> = processes().filter(serves).collect();
        let Some(process) = rng.choice(&owners) else {
            continue;
        };
        let paused = *world.hosts[process.host].paused_until.lock().unwrap();
        if paused > world.now() {
            continue;
        }
        let number = world
            .history
            .lock()
            .unwrap()
            .sent(shard, request, world.now());
        let mut node = process.node();
        node.request(number, shard, request, world.now());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn sessions_on_a_real_server_keep_their_promises() {
    let seed = fastrand::u64(..);
    println!("seed {seed}, which determines the troubles and not their outcome");
    let mut rng = Rng::with_seed(seed);
    let mut server = Server::start().await;
    let world = Arc::new(World {
        begun: Instant::now(),
        database: server.database.clone(),
        history: Mutex::default(),
        store: Mutex::default(),
        ended: Mutex::default(),
        hosts: Default::default(),
    });
    let mut tasks = JoinSet::new();
    for host in 0..HOSTS {
        tasks.spawn(world.clone().live(host));
    }
    let mut clients = JoinSet::new();
    for client in 0..4_u64 {
        let values = client << 32..u64::MAX;
        clients.spawn(ask(world.clone(), rng.fork(), values));
    }
    while world.now() < STORM {
        sleep(Duration::from_millis(rng.u64(..2_500))).await;
        trouble(&world, &mut server, &mut rng).await;
    }
    sleep(CALM / 4).await;
    clients.shutdown().await;
    check(&world, &server).await;
    tasks.shutdown().await;
}

/// Waits until all is archived, and checks what clients have seen.
async fn check(world: &World, server: &Server) {
    let live = (0..HOSTS).find_map(|host| world.process(host));
    let me = live.unwrap().node().session.id();
    let is_archived = "select not exists (select from abide_cluster.part) \
        and not exists (select from abide_cluster.lane where archived < lsn) \
        and (select count(*) = 3 from abide_cluster.session) \
        and not exists (select from abide_cluster.shard h where not exists (select from abide_cluster.session where number = h.owner))";
    while !server.is(is_archived).await {
        assert!(world.now() < STORM + CALM, "the last runs are missing");
        sleep(MOMENT).await;
    }
    let history = world.history.lock().unwrap().clone();
    for shard in (0..SHARDS).map(Shard) {
        let records = world.history(me, |of| of == shard).await.unwrap();
        let position = |record: &Record| (record.tenancy.generation, record.end);
        assert!(records.is_sorted_by_key(position), "{shard:?}: {records:?}");
        let list: Vec<u64> = records.iter().map(|record| record.value).collect();
        history.check(shard, &list).unwrap();
    }
    let ended = world.ended.lock().unwrap().clone();
    assert!(!ended.contains(&Ended::LostCommits), "{ended:?}");
    let answers = history.answers();
    println!("{answers} answers, {} sessions ended", ended.len());
    assert!(answers > 1_000, "only {answers} answers");
}
