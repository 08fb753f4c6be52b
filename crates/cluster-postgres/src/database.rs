//! Where the tables are.

use abide_cluster::{Connection, SHARDS, SessionId};
use tokio_postgres::{Config, config::Host, error::SqlState};

use crate::{Error, error::failed, limits::TCP_USER_TIMEOUT, line::Line, name::uuid};

/// The schema with the tables.
pub(crate) const SCHEMA: &str = "abide_cluster";

/// The version of the tables.
const VERSION: i32 = 1;

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
#[derive(Clone, Debug)]
pub struct Database {
    config: Config,
}

impl Database {
    /// The database at an address such as `host=db1,db2 user=abide dbname=abide` or `postgresql://abide@db1/abide`. With several
    /// hosts, the one is used that accepts writes. Nothing is asked of it yet.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn new(address: &str) -> Result<Self, Error> {
        let parsed = address.parse::<Config>();
        let mut config = parsed.map_err(|error| Error::Address(error.to_string()))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(Error::Address("it names no host".to_owned()));
        }
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
        let is_remote = |host: &Host| matches!(host, Host::Tcp(_));
        if config.get_hosts().iter().any(is_remote) {
            config.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
        }
        Ok(Self { config })
    }

    /// Creates the tables, unless they are there.
    ///
    /// # Errors
    /// The server does not answer, or the user may not create a schema. [`Error::Newer`].
    pub async fn init(&self) -> Result<(), Error> {
        let line = self.open("abide init").await?;
        let begin = format!("begin; select pg_advisory_xact_lock({CREATING})");
        line.client.batch_execute(&begin).await.map_err(failed)?;
        if version(&line).await?.is_none() {
            let create = format!(
                "create schema {SCHEMA}; {tables} insert into shard select generate_series(0, {last});",
                tables = include_str!("schema.sql"),
                last = SHARDS - 1
            );
            line.client.batch_execute(&create).await.map_err(failed)?;
        }
        line.client.batch_execute("commit").await.map_err(failed)?;
        confirmed(&line)
    }

    /// Checks that there are tables of this release, and that the server makes commits durable.
    ///
    /// # Errors
    /// [`Error::NotInitialized`], [`Error::Newer`], [`Error::NotDurable`], or the server does not answer.
    pub async fn check(&self, accept: Accept) -> Result<(), Error> {
        let line = self.open("abide check").await?;
        if version(&line).await?.is_none() {
            return Err(Error::NotInitialized);
        }
        let of = async |name: &str| {
            let row = line
                .client
                .query_one("select current_setting($1)", &[&name])
                .await
                .map_err(failed)?;
            Ok::<String, Error>(row.get(0))
        };
        for name in ["fsync", "full_page_writes"] {
            if of(name).await? != "on" {
                return Err(Error::NotDurable(format!(
                    "{name} is off: the server can lose or damage what it has confirmed. Set {name} = on"
                )));
            }
        }
        let standbys = of("synchronous_standby_names").await?;
        if accept == Accept::Replicated && standbys.is_empty() {
            return Err(Error::NotDurable(
                "synchronous_standby_names is empty: what the server has confirmed is lost with its machine. Name a standby there, \
                 or accept this if the server's storage is replicated"
                    .to_owned(),
            ));
        }
        Ok(())
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
        let mut line = self.open("abide begin").await?;
        if version(&line).await?.is_none() {
            return Err(Error::NotInitialized);
        }
        let (of_directory, of_session) = (uuid(directory), uuid(nonce));
        let sql = "select begin_session($1::text::uuid, $2, $3::text::uuid)";
        let begun = line
            .query(sql, &[&of_directory, &attempt.cast_signed(), &of_session])
            .await;
        let rows = match begun {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                self.end_lines_of(directory).await?;
                return Err(failed(error));
            }
            begun => begun.map_err(failed)?,
        };
        confirmed(&line)?;
        let number: Option<i64> = rows.first().and_then(|row| row.get(0));
        Ok(number.map(|number| SessionId {
            number: number.cast_unsigned(),
            nonce,
        }))
    }

    /// A commit of a session that has ended is in flight for too long.
    async fn end_lines_of(&self, directory: u128) -> Result<(), Error> {
        let mut line = self.open("abide begin").await?;
        let sql = "select number, nonce::text from session where directory = $1::text::uuid";
        let rows = line.query(sql, &[&uuid(directory)]).await.map_err(failed)?;
        let names: Vec<String> = rows
            .iter()
            .filter_map(|row| {
                let number = row.get::<_, i64>(0).cast_unsigned();
                let nonce = crate::name::bits(row.get(1))?;
                Some(line_name(Connection::Lane, SessionId { number, nonce }))
            })
            .collect();
        self.end_lines(&names).await
    }

    /// Ends the connections of these names. What they have committed stays.
    pub(crate) async fn end_lines(&self, names: &[String]) -> Result<(), Error> {
        let mut line = self.open("abide end").await?;
        let sql = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = any ($1)";
        line.query(sql, &[&names]).await.map_err(failed)?;
        Ok(())
    }

    pub(crate) async fn open(&self, name: &str) -> Result<Line, Error> {
        let mut config = self.config.clone();
        config.application_name(name);
        Line::open(&config).await
    }
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

/// The version of the tables, or `None` if there are none.
async fn version(line: &Line) -> Result<Option<i32>, Error> {
    let found = "select to_regclass($1) is not null";
    let name = format!("{SCHEMA}.version");
    let is_there: bool = line
        .client
        .query_one(found, &[&name])
        .await
        .map_err(failed)?
        .get(0);
    if !is_there {
        return Ok(None);
    }
    let row = line
        .client
        .query_one("select version from version", &[])
        .await
        .map_err(failed)?;
    let found: i32 = row.get(0);
    if found > VERSION {
        return Err(Error::Newer {
            found,
            known: VERSION,
        });
    }
    Ok(Some(found))
}

fn confirmed(line: &Line) -> Result<(), Error> {
    if line.is_warned() {
        let warned = "it warned that a commit may not be replicated".to_owned();
        return Err(Error::Unavailable(warned));
    }
    Ok(())
}
