//! (x) A member of a cluster: durable commits beside one node and beside `PostgreSQL` alone, and how long a takeover lasts.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use abide_cluster::SHARDS;
use abide_cluster_node::{Home, Member, Settings};
use abide_cluster_postgres::{Accept, Database};
use abide_history::{RealMachine, Store as Objects};
use abide_storage::{ObjectDb, ObjectKey, Progress, RealDisk, Store, StoreOptions};
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use futures_util::future::try_join_all;
use object_store::local::LocalFileSystem;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

use crate::{
    context::Context,
    figures::Latencies,
    peers::postgres::Server,
    report::{Measurement, Unit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Commits under way at a time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    inflight: Vec<usize>,
    /// Takeovers of a machine that is gone, each after the silence that fences it.
    #[arg(long, default_value_t = 10)]
    lost: usize,
    /// Takeovers by a new process of the same directory.
    #[arg(long, default_value_t = 20)]
    restarted: usize,
    /// Takeovers from a process that leaves.
    #[arg(long, default_value_t = 20)]
    left: usize,
    /// MiB of log that each takeover reads.
    #[arg(long, default_value_t = 16)]
    megabytes: usize,
    /// Runs of history that there are when a machine ends, each with a MiB of objects.
    #[arg(long, default_value_t = 0)]
    runs: usize,
}

/// Bytes of a value that a commit writes.
const VALUE_BYTES: usize = 200;

const PATIENCE: Duration = Duration::from_mins(1);
const MOMENT: Duration = Duration::from_millis(1);

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let server = Server::start(&context.fresh_dir("server")?)?;
    let database = Database::new(&server.address(), Accept::Local)?;
    runtime.block_on(database.init())?;
    let runs = context.fresh_dir("runs")?;
    let objects = LocalFileSystem::new_with_prefix(&runs)?.with_fsync(true);
    let location = format!("file://{}", runs.display()).parse()?;
    let runs = Objects::of(Arc::new(objects), Arc::new(RealMachine), &location);
    let mut settings = Settings::new(database, runs);
    if options.runs > 0 {
        settings.run_every = Duration::ZERO;
    }
    let world = World {
        context,
        settings,
        runtime,
        address: server.address(),
    };
    for &inflight in &options.inflight {
        world.commits(inflight)?;
    }
    if context.wants_ours() {
        for (ending, rounds) in [
            (Ending::Lost, options.lost),
            (Ending::Restarted, options.restarted),
            (Ending::Left, options.left),
        ] {
            world.takeovers(rounds, options, ending)?;
        }
    }
    Ok(())
}

/// How a member ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// As if it were killed, and another takes over.
    Lost,
    /// As if it were killed, and it comes back as another session.
    Restarted,
    /// It leaves, and another takes over.
    Left,
}

struct World<'a> {
    context: &'a Context,
    settings: Settings,
    runtime: Runtime,
    address: String,
}

impl World<'_> {
    fn join(&self, dir: &Path) -> Result<Member> {
        let home = Home::open(dir)?;
        Ok(Member::join(
            home,
            self.settings.clone(),
            StoreOptions::default(),
        )?)
    }

    fn commits(&self, inflight: usize) -> Result<()> {
        let context = self.context;
        let member = self.join(&context.fresh_dir("member")?)?;
        until("the member serves all shards", || {
            member.shards() == usize::from(SHARDS)
        })?;
        let mut ours = Writer::new(context, member.store(), inflight)?;
        let one = context.fresh_dir("one-node")?;
        let one = Store::open(Arc::new(RealDisk), &one, StoreOptions::default())?;
        let mut one = Writer::new(context, &one, inflight)?;
        let mut rows = Rows::new(self, inflight)?;
        for peer in ["one node", "an INSERT per commit"] {
            let disk = context.probe()?;
            let sides = context.alternate(
                context.wants_ours().then_some(|| ours.slice()),
                context.wants_peer().then_some(|| match peer {
                    "one node" => one.slice(),
                    _ => rows.slice(),
                }),
            )?;
            let name = format!("cluster/commits/{inflight}");
            context.print_commits(&name, disk, &sides, peer);
        }
        Ok(())
    }

    /// A member ends, and what it had is served again.
    fn takeovers(&self, rounds: usize, options: &Options, ending: Ending) -> Result<()> {
        let context = self.context;
        let dirs = [context.fresh_dir("lost")?, context.fresh_dir("other")?];
        let disk = context.probe()?;
        let name = match ending {
            Ending::Lost => "lost",
            Ending::Restarted => "restarted",
            Ending::Left => "left",
        };
        let mut phases: [Latencies; 3] = Default::default();
        for _ in 0..rounds {
            let lost = self.join(&dirs[0])?;
            let all = usize::from(SHARDS);
            until("a member serves all shards", || lost.shards() == all)?;
            let other = (ending != Ending::Restarted).then(|| self.join(&dirs[1]));
            let other = other.transpose()?;
            for _ in 0..options.runs {
                fill(lost.store(), 1)?;
                self.archive(&lost)?;
            }
            fill(lost.store(), options.megabytes)?;
            let session = lost.session();
            let begun = Instant::now();
            if ending == Ending::Left {
                ensure!(self.runtime.block_on(lost.leave()), "it has not left");
            }
            drop(lost);
            let other = match other {
                Some(other) => other,
                None => self.join(&dirs[0])?,
            };
            let is_fenced = format!(
                "select not exists (select from abide_cluster.session where number = {} and not is_fenced)",
                session.number
            );
            let is_claimed = format!(
                "select not exists (select from abide_cluster.shard where owner = {})",
                session.number
            );
            let admin = self.runtime.block_on(connect(&self.address))?;
            let is = |sql: &str| -> Result<bool> {
                Ok(self.runtime.block_on(admin.query_one(sql, &[]))?.get(0))
            };
            for (phase, sql) in phases.iter_mut().zip([is_fenced, is_claimed]) {
                while !is(&sql)? {
                    ensure!(begun.elapsed() < PATIENCE, "no takeover");
                    sleep(MOMENT);
                }
                phase.push(begun.elapsed());
            }
            until("all shards are served", || other.shards() == all)?;
            phases[2].push(begun.elapsed());
            drop(other);
            // The next round begins without anything to adopt.
            self.runtime.block_on(self.forget_all())?;
        }
        for (phase, latencies) in ["fenced", "claimed", "served"].into_iter().zip(phases) {
            let [p50, p99] = latencies.percentiles_us([50.0, 99.0]);
            for (suffix, micros) in [("p50", p50), ("p99", p99)] {
                let name = format!("cluster/takeover/{name}/{phase}/{suffix}");
                let measurement = Measurement::new(name, Unit::Seconds, disk);
                context.print(&measurement.ours(micros / 1e6));
            }
        }
        Ok(())
    }

    /// Has all that a member has logged put into a run.
    fn archive(&self, member: &Member) -> Result<()> {
        member.store().checkpoint()?;
        let (session, upto) = (member.session().number, member.store().checkpointed().get());
        let is_archived =
            format!("select archived >= {upto} from abide_cluster.lane where session = {session}");
        let admin = self.runtime.block_on(connect(&self.address))?;
        let is_archived = || self.runtime.block_on(admin.query_one(&is_archived, &[]));
        until("the log is archived", || {
            is_archived().is_ok_and(|row| row.get(0))
        })
    }

    async fn forget_all(&self) -> Result<()> {
        let client = connect(&self.address).await?;
        client
            .batch_execute("drop schema abide_cluster cascade")
            .await?;
        Ok(self.settings.database.init().await?)
    }
}

async fn connect(address: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > PATIENCE {
            bail!("it takes too long until {what}");
        }
        sleep(MOMENT);
    }
    Ok(())
}

/// Writes so much to the log, in objects of all shards.
fn fill(store: &Store, megabytes: usize) -> Result<()> {
    const BYTES: usize = 16_384;
    let namespace = store.namespace("Filled")?;
    let mut end = None;
    for number in 0..megabytes * (1 << 20) / BYTES {
        let mut id = [9; 32];
        [id[0], id[1]] = (number as u16).wrapping_mul(64).to_be_bytes();
        let db = store.open_object(ObjectKey { namespace, id })?;
        db.kv_put("k", &vec![number as u8; BYTES])?;
        end = db.commit()?;
    }
    let end = end.context("nothing was written")?;
    until("the log is durable", || store.durable() >= end)
}

/// Commits of one thread, of which some are under way.
struct Writer<'a> {
    context: &'a Context,
    objects: Vec<ObjectDb>,
    store: Store,
    released: Receiver<Progress>,
    inflight: usize,
    /// Commits so far.
    turn: usize,
}

impl<'a> Writer<'a> {
    fn new(context: &'a Context, store: &Store, inflight: usize) -> Result<Self> {
        let namespace = store.namespace("Written")?;
        let mut objects = Vec::new();
        for number in 0..inflight as u16 {
            let mut id = [5; 32];
            [id[0], id[1]] = (number * 64).to_be_bytes();
            objects.push(store.open_object(ObjectKey { namespace, id })?);
        }
        let (sender, released) = mpsc::channel();
        store.subscribe(Box::new(move |progress| {
            let _ = sender.send(progress);
        }));
        Ok(Self {
            context,
            objects,
            store: store.clone(),
            released,
            inflight,
            turn: 0,
        })
    }

    fn slice(&mut self) -> Result<[f64; 3]> {
        self.write_for(self.context.warm_up())?;
        let slice = self.context.slice();
        let latencies = self.write_for(slice)?;
        Ok(figures(latencies, slice))
    }

    fn write_for(&mut self, time: Duration) -> Result<Latencies> {
        let mut latencies = Latencies::default();
        let mut under_way = VecDeque::new();
        let begun = Instant::now();
        while begun.elapsed() < time {
            let db = &self.objects[self.turn % self.objects.len()];
            self.turn += 1;
            let mut value = [7; VALUE_BYTES];
            value[..8].copy_from_slice(&self.turn.to_le_bytes());
            db.kv_put("k", &value)?;
            let end = db.commit()?.context("a commit without a change")?;
            under_way.push_back((end, Instant::now()));
            while under_way.len() >= self.inflight {
                let durable = self.store.durable();
                while let Some((end, sent)) = under_way.front()
                    && *end <= durable
                {
                    latencies.push(sent.elapsed());
                    under_way.pop_front();
                }
                if under_way.len() >= self.inflight {
                    match self.released.recv_timeout(PATIENCE)? {
                        Progress::Durable(_) => {}
                        Progress::Failed => bail!("the log has failed"),
                    }
                }
            }
        }
        let last = under_way.back().map(|(end, _)| *end);
        until("the last commits are durable", || {
            last.is_none_or(|last| self.store.durable() >= last)
        })?;
        while self.released.try_recv().is_ok() {}
        Ok(latencies)
    }
}

fn figures(latencies: Latencies, slice: Duration) -> [f64; 3] {
    let rate = latencies.len() as f64 / slice.as_secs_f64();
    let [p50, p99] = latencies.percentiles_us([50.0, 99.0]);
    [rate, p50, p99]
}

/// A row for each commit, on as many connections as commits are under way.
struct Rows<'a> {
    world: &'a World<'a>,
    clients: Vec<(Client, tokio_postgres::Statement)>,
}

impl<'a> Rows<'a> {
    fn new(world: &'a World<'a>, inflight: usize) -> Result<Self> {
        let clients = world.runtime.block_on(async {
            let create = "create table if not exists rows (id bigint primary key, value bytea)";
            connect(&world.address).await?.batch_execute(create).await?;
            let mut clients = Vec::new();
            for _ in 0..inflight {
                let client = connect(&world.address).await?;
                let insert = "insert into rows values ($1, $2) on conflict (id) do update set value = excluded.value";
                let insert = client.prepare(insert).await?;
                clients.push((client, insert));
            }
            Ok::<_, anyhow::Error>(clients)
        })?;
        Ok(Self { world, clients })
    }

    fn slice(&mut self) -> Result<[f64; 3]> {
        self.write_for(self.world.context.warm_up())?;
        let slice = self.world.context.slice();
        let latencies = self.write_for(slice)?;
        Ok(figures(latencies, slice))
    }

    fn write_for(&self, time: Duration) -> Result<Latencies> {
        let begun = Instant::now();
        let clients = (0_i64..).zip(&self.clients);
        let writers = clients.map(async |(id, (client, insert))| {
            let mut value = vec![0; VALUE_BYTES];
            let mut latencies = Latencies::default();
            while begun.elapsed() < time {
                value[0] += 1_u8;
                let sent = Instant::now();
                client.execute(insert, &[&id, &value]).await?;
                latencies.push(sent.elapsed());
                value[0] %= 200;
            }
            Ok::<_, anyhow::Error>(latencies)
        });
        let mut all = Latencies::default();
        for latencies in self.world.runtime.block_on(try_join_all(writers))? {
            all.append(latencies);
        }
        Ok(all)
    }
}
