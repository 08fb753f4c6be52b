//! A server for a test, with a cluster's tables.

use std::pin::pin;

use abide_cluster::{
    Answer, Connection, Lsn, Outcome, Run, SessionId, Shard, Statement, Stored, Tenancy,
};
use abide_cluster_postgres::{Accept, Database, Lines, Listed};
use abide_cluster_sim::Record;
use abide_harness::Postgres;
use tokio_postgres::{Client, NoTls};

/// A server, its tables, and a connection of an administrator.
pub(crate) struct Server {
    pub(crate) postgres: Postgres,
    pub(crate) database: Database,
    pub(crate) admin: Client,
}

impl Server {
    /// Starts it, and creates the tables.
    pub(crate) async fn start() -> Self {
        let postgres = Postgres::start();
        let database = Database::new(&postgres.address(), Accept::Local).unwrap();
        database.init().await.unwrap();
        let admin = admin(&postgres).await;
        Self {
            postgres,
            database,
            admin,
        }
    }

    /// Begins a session of a data directory, by its first attempt.
    pub(crate) async fn begin(&self, directory: u128) -> Own {
        let begun = self.database.begin(directory, 1, directory << 64 | 1);
        let session = begun.await.unwrap().unwrap();
        Own::new(&self.database, session)
    }

    /// The runs that a session is told of, after one.
    pub(crate) async fn runs(&self, own: &Own, after: u64) -> Vec<Listed> {
        let told = self.database.runs(own.session, after).await.unwrap();
        told.unwrap()
    }

    /// Has a session list a run with no records, at this place. `number` is that of the session's last run, plus one.
    pub(crate) async fn list(&self, own: &Own, number: u64, place: &str) {
        let run = Run {
            number,
            after: number - 1,
            parts: Vec::new(),
            since: Lsn(0),
            until: Lsn(0),
            tenancies: Vec::new(),
        };
        let stored = Some(stored(place));
        let published = own.say(&Statement::Publish { run, stored }).await;
        assert_eq!(published, Outcome::Done(Answer::Committed));
    }

    /// Waits for a standby that does not exist, from now on.
    pub(crate) async fn lose_standby(&self) {
        self.standby("missing").await;
        // Commits wait once the server's checkpointer has read the setting.
        let probe = admin(&self.postgres).await;
        let pid = probe.query_one("select pg_backend_pid()", &[]).await;
        let pid: i32 = pid.unwrap().get(0);
        let is_waiting = format!(
            "select count(*) > 0 from pg_stat_activity where pid = {pid} and wait_event = 'SyncRep'"
        );
        let write = "update abide_cluster.version set version = version";
        loop {
            let mut writing = pin!(probe.batch_execute(write));
            tokio::select! {
                done = &mut writing => done.unwrap(),
                () = self.until(&is_waiting) => {
                    let cancel = format!("select pg_cancel_backend({pid})");
                    self.admin.batch_execute(&cancel).await.unwrap();
                    writing.await.unwrap();
                    return;
                }
            }
        }
    }

    /// Waits for no standby.
    pub(crate) async fn regain_standby(&self) {
        self.standby("").await;
    }

    async fn standby(&self, name: &str) {
        // Each in its own transaction.
        let alter = format!("alter system set synchronous_standby_names = '{name}'");
        self.admin.batch_execute(&alter).await.unwrap();
        self.admin
            .batch_execute("select pg_reload_conf()")
            .await
            .unwrap();
        self.until(&format!(
            "select current_setting('synchronous_standby_names') = '{name}'"
        ))
        .await;
    }

    /// Waits until a query says `true`.
    pub(crate) async fn until(&self, query: &str) {
        for _ in 0..2_000 {
            if self.is(query).await {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("never: {query}");
    }

    pub(crate) async fn is(&self, query: &str) -> bool {
        self.admin.query_one(query, &[]).await.unwrap().get(0)
    }

    /// Waits until a statement of this text waits for a standby or a lock.
    pub(crate) async fn until_waiting(&self, text: &str, what: &str) {
        self.until(&format!(
            "select count(*) > 0 from pg_stat_activity where wait_event = '{what}' and query like '%{text}%' and pid <> pg_backend_pid()"
        ))
        .await;
    }
}

/// A run at a place.
pub(crate) fn stored(place: &str) -> Stored {
    Stored {
        about: "about".to_owned(),
        place: place.to_owned(),
    }
}

/// A connection that shares nothing with the product's.
pub(crate) async fn admin(postgres: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&postgres.address(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

/// A session and its connections.
pub(crate) struct Own {
    pub(crate) session: SessionId,
    pub(crate) lines: Lines,
}

impl Own {
    pub(crate) fn new(database: &Database, session: SessionId) -> Self {
        Self {
            session,
            lines: Lines::new(database.clone(), session),
        }
    }

    pub(crate) async fn say(&self, statement: &Statement) -> Outcome {
        self.lines
            .execute(connection_of(statement), statement, &[])
            .await
    }

    /// Appends bytes.
    pub(crate) async fn append(&self, begin: u64, bytes: &[u8]) -> Outcome {
        let statement = Statement::Append {
            begin: Lsn(begin),
            end: Lsn(begin + bytes.len() as u64),
        };
        self.lines
            .execute(Connection::Lane, &statement, bytes)
            .await
    }
}

pub(crate) fn connection_of(statement: &Statement) -> Connection {
    match statement {
        Statement::Append { .. } | Statement::Settle => Connection::Lane,
        Statement::Renew(_) => Connection::Lease,
        _ => Connection::Control,
    }
}

pub(crate) fn tenancy(shard: u16, generation: u32) -> Tenancy {
    Tenancy {
        shard: Shard(shard),
        generation: abide_cluster::Generation(generation),
    }
}

/// The bytes of a group of records.
pub(crate) fn encode(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(Record::encode).collect()
}

/// The records in the log of a session that belong to a part.
pub(crate) async fn read(
    database: &Database,
    shard: Shard,
    part: &abide_cluster::Part,
) -> Result<Vec<Record>, abide_cluster_postgres::Error> {
    let own = Tenancy {
        shard,
        generation: part.generation,
    };
    let mut records = Vec::new();
    let (since, until) = (part.since, part.until);
    let reading = database.read(part.session, since, until, |begin, _, group| {
        let chunks = group.chunks_exact(Record::BYTES as usize).zip(1..);
        records.extend(chunks.map(|(chunk, number)| {
            let end = Lsn(begin.0 + number * Record::BYTES);
            Record::decode(chunk.try_into().unwrap(), end)
        }));
    });
    reading.await?;
    records.retain(|record| record.tenancy == own && record.end > since && record.end <= until);
    Ok(records)
}
