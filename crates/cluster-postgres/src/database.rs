//! Where the tables are.

use std::time::Duration;

use abide_cluster::{Connection, SHARDS, SessionId};
use abide_postgres::Address;
use tokio_postgres::config::{Host, TargetSessionAttrs};

use crate::{
    Error,
    error::Failure,
    limits::{CONNECT_TIMEOUT, KEEPALIVE, TCP_USER_TIMEOUT},
    line::Line,
    name::{bits, uuid},
};

/// The schema with the tables.
pub(crate) const SCHEMA: &str = "abide_cluster";

/// The version of the tables.
const VERSION: i32 = 2;

/// The advisory lock for creating the tables: two creations at the same time would fail.
const CREATING: i64 = 0x6162_6964_6563_6c75;

/// How durable a commit has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// A commit is on two machines when it is confirmed.
    Replicated,
    /// A commit is on one machine, whose storage is replicated by other means, or whose loss is accepted.
    Local,
}

/// A `PostgreSQL` server and a database with the tables of one cluster.
///
/// Each connection checks that the server makes commits durable, and each statement that it still waits for a standby, if that is asked
/// for: the server may have been replaced by one with other settings. A commit that waits for a standby while its administrator
/// gives up waiting for standbys is confirmed like any other.
#[derive(Clone, Debug)]
pub struct Database {
    address: Address,
    accept: Accept,
}

impl Database {
    /// The database at an address ([`abide_postgres`]) such as `host=db1,db2 user=abide dbname=abide` or `postgresql://abide@db1/abide`.
    /// With several hosts, the first one is used that accepts writes. Nothing is asked of it yet.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn new(address: &str, accept: Accept) -> Result<Self, Error> {
        let parsed = Address::new(address);
        let mut address = parsed.map_err(|error| Error::Address(error.to_string()))?;
        let config = &mut address.config;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(Error::Address("it names no host".to_owned()));
        }
        config
            .tcp_user_timeout(TCP_USER_TIMEOUT)
            .keepalives_idle(KEEPALIVE)
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        let is_local = |host: &Host| !matches!(host, Host::Tcp(_));
        if config.get_hosts().is_empty() || !config.get_hosts().iter().all(is_local) {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Self { address, accept })
    }

    /// Creates the tables, unless they are there. Those of an earlier release are changed to those of this one, and their sessions end.
    ///
    /// # Errors
    /// The server does not answer, or the user may not create a schema. [`Error::Newer`].
    pub async fn init(&self) -> Result<(), Error> {
        let line = self.open("abide init").await?;
        self.create(&line).await?;
        line.batch("commit").await?;
        confirmed(&line)
    }

    /// Begins a transaction that creates the tables, or upgrades them. Returns false if there were any.
    pub(crate) async fn create(&self, line: &Line) -> Result<bool, Error> {
        line.batch(&format!("begin; select pg_advisory_xact_lock({CREATING})"))
            .await?;
        let found = version(line).await?;
        if found.is_none() {
            let create = format!(
                "create schema {SCHEMA}; {tables} insert into shard select generate_series(0, {last});",
                tables = include_str!("tables.sql"),
                last = SHARDS - 1
            );
            line.batch(&create).await?;
        }
        if found == Some(1) {
            line.batch(include_str!("upgrade_2.sql")).await?;
        }
        if found != Some(VERSION) {
            line.batch(include_str!("functions.sql")).await?;
        }
        Ok(found.is_none())
    }

    /// Checks that there are tables of this release, and that the server makes commits durable.
    ///
    /// # Errors
    /// [`Error::NotInitialized`], [`Error::Older`], [`Error::Newer`], [`Error::NotDurable`], or the server does not answer.
    pub async fn check(&self) -> Result<(), Error> {
        let line = self.open("abide check").await?;
        must_be_initialized(&line).await
    }

    /// Begins a session of a data directory, and fences those that the directory began before: their processes have ended. `attempt`
    /// is greater than that of every attempt before, and was durable in the directory before this. `nonce` is random. `None` if a
    /// later attempt was here before.
    ///
    /// # Errors
    /// The server does not answer, or the session may have begun all the same: try again, as another attempt.
    pub async fn begin(
        &self,
        directory: u128,
        attempt: u64,
        nonce: u128,
    ) -> Result<Option<SessionId>, Error> {
        let mut line = self.open(&begin_name(directory)).await?;
        must_be_initialized(&line).await?;
        let (of_directory, of_session) = (uuid(directory), uuid(nonce));
        let sql = "select begin_session($1::text::uuid, $2, $3::text::uuid)";
        let begun = line
            .query(sql, &[&of_directory, &attempt.cast_signed(), &of_session])
            .await;
        if begun.as_ref().is_err_and(Failure::is_locked) {
            self.end_lines_of(directory).await?;
        }
        let rows = begun?;
        confirmed(&line)?;
        let number: Option<i64> = rows.first().and_then(|row| row.get(0));
        Ok(number.map(|number| SessionId {
            number: number.cast_unsigned(),
            nonce,
        }))
    }

    /// The random name of the cluster, which its tables were created with.
    ///
    /// # Errors
    /// [`Error::NotInitialized`], [`Error::Older`], [`Error::Newer`], or the server does not answer.
    pub async fn cluster(&self) -> Result<u128, Error> {
        let mut line = self.open("abide cluster").await?;
        must_be_initialized(&line).await?;
        let rows = line.query("select cluster::text from version", &[]).await?;
        let name = rows.first().and_then(|row| bits(row.get(0)));
        name.ok_or_else(|| Error::Unavailable("the cluster has no name".to_owned()))
    }

    /// Tells all sessions where clients reach one, by a URL.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn announce(&self, session: SessionId, address: &str) -> Result<(), Error> {
        let mut line = self.open("abide announce").await?;
        let sql = "update session set address = $3 where number = $1 and nonce = $2::text::uuid";
        let (number, nonce) = (session.number.cast_signed(), uuid(session.nonce));
        line.query(sql, &[&number, &nonce, &address]).await?;
        confirmed(&line)
    }

    /// The unique keys of all namespaces in the order of their numbers, this one among them. If it is new, it comes after all others.
    ///
    /// # Errors
    /// The server does not answer, or does not confirm the commit: try again.
    pub async fn namespaces_with(&self, unique_key: &str) -> Result<Vec<String>, Error> {
        let mut line = self.open("abide namespace").await?;
        must_be_initialized(&line).await?;
        let rows = line
            .query("select namespaces_with($1)", &[&unique_key])
            .await?;
        confirmed(&line)?;
        Ok(rows.first().map_or_else(Vec::new, |row| row.get(0)))
    }

    /// How many milliseconds the server's clock is ahead of another one, to within half of the shortest of a few round trips.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn ahead_of(
        &self,
        unix_millis: &(dyn Fn() -> u64 + Send + Sync),
    ) -> Result<i64, Error> {
        const TRIES: usize = 5;
        let mut line = self.open("abide clock").await?;
        let sql = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
        let mut best: Option<(u64, i64)> = None;
        for _ in 0..TRIES {
            let sent = unix_millis();
            let rows = line.query(sql, &[]).await?;
            let trip = unix_millis().saturating_sub(sent);
            let there: Option<i64> = rows.first().map(|row| row.get(0));
            let there =
                there.ok_or_else(|| Error::Unavailable("it does not know the time".to_owned()))?;
            let ahead = there - (sent + trip / 2).cast_signed();
            if best.is_none_or(|(shortest, _)| trip < shortest) {
                best = Some((trip, ahead));
            }
        }
        Ok(best.map_or(0, |(_, ahead)| ahead))
    }

    /// A statement of a process that has ended takes too long.
    async fn end_lines_of(&self, directory: u128) -> Result<(), Error> {
        let mut line = self.open("abide end").await?;
        let sql = "select number, nonce::text from session where directory = $1::text::uuid";
        let rows = line.query(sql, &[&uuid(directory)]).await?;
        let sessions = rows.iter().filter_map(|row| {
            Some(SessionId {
                number: row.get::<_, i64>(0).cast_unsigned(),
                nonce: bits(row.get(1))?,
            })
        });
        let mut names: Vec<String> = sessions.flat_map(line_names).collect();
        names.push(begin_name(directory));
        end(&mut line, &names).await
    }

    /// Ends the connections of a session. What they have committed stays.
    pub(crate) async fn end_lines(&self, session: SessionId) -> Result<(), Error> {
        let mut line = self.open("abide end").await?;
        end(&mut line, &line_names(session)).await
    }

    pub(crate) async fn open(&self, name: &str) -> Result<Line, Error> {
        let mut address = self.address.clone();
        address.config.application_name(name);
        Ok(Line::open(&address, self.accept).await?)
    }
}

async fn end(line: &mut Line, names: &[String]) -> Result<(), Error> {
    let sql =
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = any ($1)";
    line.query(sql, &[&names]).await?;
    Ok(())
}

fn begin_name(directory: u128) -> String {
    format!("abide begin {directory:032x}")
}

fn line_names(session: SessionId) -> [String; Connection::ALL.len()] {
    Connection::ALL.map(|connection| line_name(connection, session))
}

/// The name of a connection, by which others find it.
pub(crate) fn line_name(connection: Connection, session: SessionId) -> String {
    let of = match connection {
        Connection::Lane => "lane",
        Connection::Lease => "lease",
        Connection::Control => "control",
    };
    // At most 63 bytes.
    format!("abide {of} {:032x}", session.nonce)
}

async fn must_be_initialized(line: &Line) -> Result<(), Error> {
    match version(line).await? {
        None => Err(Error::NotInitialized),
        Some(VERSION) => Ok(()),
        Some(found) => Err(Error::Older { found }),
    }
}

/// The version of the tables, or `None` if there are none.
async fn version(line: &Line) -> Result<Option<i32>, Error> {
    let is_there = "select to_regclass($1) is not null";
    let name = format!("{SCHEMA}.version");
    let row = line.client.query_one(is_there, &[&name]).await;
    let is_there: bool = row.map_err(Failure::from)?.get(0);
    if !is_there {
        return Ok(None);
    }
    let row = line.client.query_one("select version from version", &[]);
    let found: i32 = row.await.map_err(Failure::from)?.get(0);
    if found > VERSION {
        return Err(Error::Newer {
            found,
            known: VERSION,
        });
    }
    Ok(Some(found))
}

pub(crate) fn confirmed(line: &Line) -> Result<(), Error> {
    if line.is_warned() {
        let warned = "it warned that a commit may not be replicated".to_owned();
        return Err(Error::Unavailable(warned));
    }
    Ok(())
}
