//! What operators see of a cluster.

use crate::{Database, Error};

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

impl Database {
    /// Reads what there is.
    ///
    /// # Errors
    /// [`Error::NotInitialized`], [`Error::Newer`], or the server does not answer.
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
