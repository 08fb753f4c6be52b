//! What operators see of a cluster.

use std::ops::RangeInclusive;

use abide_cluster::SessionId;

use crate::{Database, Error, database::confirmed, error::Failure, name::bits};

/// A cluster at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The sessions that are not forgotten, from the oldest to the newest.
    pub sessions: Vec<SessionStatus>,
    /// Shards whose owner has ended, or that have had none.
    pub unowned: u64,
    /// Shards of which earlier owners have left records that are in no run yet.
    pub inherited: u64,
    /// Runs of history that are listed.
    pub runs: u64,
}

/// A start of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionStatus {
    /// Its number.
    pub number: u64,
    /// Where clients reach it, if it has said so.
    pub address: Option<String>,
    /// Whether it has ended. It is kept until all that it has left is in runs.
    pub is_fenced: bool,
    /// How many shards it owns.
    pub shards: u64,
    /// Bytes of its log that are in no run.
    pub unarchived: u64,
}

/// Shards one after the other that have the same owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedShards {
    /// The shards.
    pub shards: RangeInclusive<u16>,
    /// The number of the session that owns them, unless it has ended.
    pub session: Option<u64>,
    /// Where clients reach it, if it has said so.
    pub address: Option<String>,
}

impl Database {
    /// The owners of all shards, in order.
    ///
    /// # Errors
    /// [`Error::NotInitialized`], [`Error::Older`], [`Error::Newer`], or the server does not answer.
    pub async fn shards(&self) -> Result<Vec<OwnedShards>, Error> {
        self.check().await?;
        let mut line = self.open("abide shards").await?;
        let sql = "select h.shard, s.number, s.address from shard h \
                   left join session s on s.number = h.owner and not s.is_fenced order by h.shard";
        let rows = line.query(sql, &[]).await?;
        let mut owned: Vec<OwnedShards> = Vec::new();
        for row in &rows {
            let shard: i32 = row.get(0);
            let shard =
                u16::try_from(shard).map_err(|_| Failure::Unreadable(format!("shard {shard}")))?;
            let session: Option<i64> = row.get(1);
            let session = session.map(i64::cast_unsigned);
            match owned.last_mut() {
                Some(last) if last.session == session => {
                    last.shards = *last.shards.start()..=shard;
                }
                _ => owned.push(OwnedShards {
                    shards: shard..=shard,
                    session,
                    address: row.get(2),
                }),
            }
        }
        Ok(owned)
    }

    /// Fences a session at once, by its number: others take its shards over without waiting until it has been silent. False if there is no
    /// such session, or if it has ended.
    ///
    /// Its machine is known to be off. A process that still runs commits nothing more, and ends when it notices; until its lease ends, it
    /// may answer reads with what others have changed since.
    ///
    /// # Errors
    /// [`Error::NotInitialized`], [`Error::Older`], [`Error::Newer`], or the server does not answer: it may be fenced all the same.
    pub async fn fence(&self, session: u64) -> Result<bool, Error> {
        self.check().await?;
        let mut line = self.open("abide fence").await?;
        let number = session.cast_signed();
        let sql = "select fence_at_once($1)";
        let mut fenced = line.query(sql, &[&number]).await;
        if fenced.as_ref().is_err_and(Failure::is_locked) {
            // A statement of the session waits for the standby.
            let name = "select nonce::text from session where number = $1";
            let rows = line.query(name, &[&number]).await?;
            if let Some(nonce) = rows.first().and_then(|row| bits(row.get(0))) {
                let number = session;
                self.end_lines(SessionId { number, nonce }).await?;
            }
            fenced = line.query(sql, &[&number]).await;
        }
        let rows = fenced?;
        confirmed(&line)?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    /// Reads what there is.
    ///
    /// # Errors
    /// [`Error::NotInitialized`], [`Error::Older`], [`Error::Newer`], or the server does not answer.
    pub async fn status(&self) -> Result<Status, Error> {
        self.check().await?;
        let mut line = self.open("abide status").await?;
        let sessions = "select s.number, s.address, s.is_fenced, \
                        (select count(*) from shard h where h.owner = s.number), l.lsn - l.archived \
                        from session s join lane l on l.session = s.number order by s.number";
        let sessions = line.query(sessions, &[]).await?;
        let counts = "select \
            (select count(*) from shard h where not exists \
                (select from session s where s.number = h.owner and not s.is_fenced)), \
            (select count(distinct shard) from part), \
            (select count(*) from run)";
        let counts = line.query(counts, &[]).await?;
        let count = |column: usize| {
            let row = counts.first();
            row.map_or(0, |row| row.get::<_, i64>(column).cast_unsigned())
        };
        let number = |value: i64| value.cast_unsigned();
        let sessions = sessions.iter().map(|row| SessionStatus {
            number: number(row.get(0)),
            address: row.get(1),
            is_fenced: row.get(2),
            shards: number(row.get(3)),
            unarchived: number(row.get(4)),
        });
        Ok(Status {
            sessions: sessions.collect(),
            unowned: count(0),
            inherited: count(1),
            runs: count(2),
        })
    }
}
