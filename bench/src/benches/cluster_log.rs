//! (w) Durable appends to the log of a cluster's session in `PostgreSQL`: what fencing costs, beside a plain `INSERT` of the same bytes.

use std::time::Instant;

use abide_cluster::{Answer, Connection, Lsn, Outcome, Run, Statement};
use abide_cluster_postgres::{Accept, Database, Lines};
use anyhow::{Result, ensure};
use clap::Args;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

use crate::{context::Context, figures::Latencies, peers::postgres::Server};

#[derive(Args)]
pub(crate) struct Options {
    /// Bytes of a group.
    #[arg(long, value_delimiter = ',', default_values_t = [512, 8_192, 262_144, 4_194_304])]
    bytes: Vec<usize>,
}

/// Groups between two runs of history, which let the log be emptied.
const GROUPS_OF_A_RUN: u64 = 64;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let server = Server::start(&context.fresh_dir("server")?)?;
    let ours = runtime.block_on(Log::begin(&server.address()))?;
    let peer = runtime.block_on(Plain::begin(&server.address()))?;
    let mut ours = Side::new(context, &runtime, ours);
    let mut peer = Side::new(context, &runtime, peer);
    for &bytes in &options.bytes {
        let group = vec![0xA5; bytes];
        let disk = context.probe()?;
        let sides = context.alternate(
            context.wants_ours().then_some(|| ours.slice(&group)),
            context.wants_peer().then_some(|| peer.slice(&group)),
        )?;
        let name = format!("cluster-log/append/{bytes}");
        context.print_commits(&name, disk, &sides, "plain INSERT");
    }
    Ok(())
}

/// One after the other, as a session has one group in flight.
trait Append {
    async fn append(&mut self, group: &[u8]) -> Result<()>;
}

struct Side<'a, T> {
    context: &'a Context,
    runtime: &'a Runtime,
    target: T,
}

impl<'a, T: Append> Side<'a, T> {
    fn new(context: &'a Context, runtime: &'a Runtime, target: T) -> Self {
        Self {
            context,
            runtime,
            target,
        }
    }

    /// Groups per second, and the latency of one: p50 and p99.
    fn slice(&mut self, group: &[u8]) -> Result<[f64; 3]> {
        self.runtime.block_on(async {
            let warm = Instant::now();
            while warm.elapsed() < self.context.warm_up() {
                self.target.append(group).await?;
            }
            let mut latencies = Latencies::default();
            let begun = Instant::now();
            while begun.elapsed() < self.context.slice() {
                let sent = Instant::now();
                self.target.append(group).await?;
                latencies.push(sent.elapsed());
            }
            let rate = latencies.len() as f64 / begun.elapsed().as_secs_f64();
            let [p50, p99] = latencies.percentiles_us([50.0, 99.0]);
            Ok([rate, p50, p99])
        })
    }
}

/// A session's log.
struct Log {
    lines: Lines,
    end: Lsn,
    groups: u64,
}

impl Log {
    async fn begin(address: &str) -> Result<Self> {
        let database = Database::new(address, Accept::Local)?;
        database.init().await?;
        let session = database.begin(1, 1, 1).await?;
        let session = session.ok_or_else(|| anyhow::anyhow!("no session has begun"))?;
        Ok(Self {
            lines: Lines::new(database, session),
            end: Lsn(0),
            groups: 0,
        })
    }

    async fn say(&self, connection: Connection, statement: Statement, group: &[u8]) -> Result<()> {
        let outcome = self.lines.execute(connection, &statement, group).await;
        ensure!(
            outcome == Outcome::Done(Answer::Committed),
            "{statement:?}: {outcome:?}"
        );
        Ok(())
    }

    /// Lists a run with all that was appended, and empties the log.
    async fn archive(&self, number: u64) -> Result<()> {
        let run = Run {
            number,
            after: number - 1,
            parts: Vec::new(),
            since: Lsn(0),
            until: self.end,
            tenancies: Vec::new(),
        };
        let publish = Statement::Publish { run, stored: None };
        self.say(Connection::Control, publish, &[]).await?;
        self.say(Connection::Control, Statement::Trim, &[]).await
    }
}

impl Append for Log {
    async fn append(&mut self, group: &[u8]) -> Result<()> {
        let begin = self.end;
        let end = Lsn(begin.0 + group.len() as u64);
        self.say(Connection::Lane, Statement::Append { begin, end }, group)
            .await?;
        self.end = end;
        self.groups += 1;
        if self.groups.is_multiple_of(GROUPS_OF_A_RUN) {
            self.archive(self.groups / GROUPS_OF_A_RUN).await?;
        }
        Ok(())
    }
}

/// A table, without anything that prevents a second writer.
struct Plain {
    client: Client,
    insert: tokio_postgres::Statement,
    next: i64,
}

impl Plain {
    async fn begin(address: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
        tokio::spawn(connection);
        let create = "create table plain (lsn bigint primary key, payload bytea not null); \
                      alter table plain alter payload set storage external";
        client.batch_execute(create).await?;
        let insert = client.prepare("insert into plain values ($1, $2)").await?;
        Ok(Self {
            client,
            insert,
            next: 0,
        })
    }
}

impl Append for Plain {
    async fn append(&mut self, group: &[u8]) -> Result<()> {
        self.client
            .execute(&self.insert, &[&self.next, &group])
            .await?;
        self.next += 1;
        if self.next.cast_unsigned().is_multiple_of(GROUPS_OF_A_RUN) {
            self.client.batch_execute("truncate plain").await?;
        }
        Ok(())
    }
}
