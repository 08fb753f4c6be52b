//! What the object store has of the tables, should the database be lost.

use abide_cluster::{SHARDS, SessionId};
use serde::{Deserialize, Serialize};

use crate::{Database, Error, database::confirmed, error::Failure, name::uuid, runs::read};

/// All that is needed to make the tables of a cluster again, but what logs alone have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Catalogue {
    /// The version of this format, 1.
    pub version: u32,
    /// Above those of all earlier catalogues of the cluster.
    pub number: u64,
    /// The random name of the cluster, a UUID.
    pub cluster: String,
    /// When it was read, by the server's clock, in milliseconds since 1970.
    pub unix_millis: u64,
    /// It has the runs up to here, in the order in which they were listed ([`Listed::seq`](crate::Listed::seq)).
    pub seq: u64,
    /// The unique keys of the classes, by their numbers.
    pub namespaces: Vec<String>,
    /// Of each shard, its generation, and how long its logs have been, added up.
    pub shards: Vec<(u64, u64)>,
    /// The runs, in the order of their places.
    pub runs: Vec<CataloguedRun>,
    /// The places of runs that were replaced and may still be in the object store.
    pub replaced: Vec<String>,
}

/// A run in a [`Catalogue`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CataloguedRun {
    /// As [`Listed::first`](crate::Listed::first).
    pub first: u64,
    /// As [`Listed::last`](crate::Listed::last).
    pub last: u64,
    /// As [`Stored::about`](abide_cluster::Stored::about).
    pub about: String,
    /// As [`Stored::place`](abide_cluster::Stored::place).
    pub place: String,
}

impl Database {
    /// Reads a catalogue, all of which is on the standby. `None` if the session is fenced.
    ///
    /// # Errors
    /// The server does not answer, or the tables are not those of this release.
    pub async fn catalogue(&self, session: SessionId) -> Result<Option<Catalogue>, Error> {
        let sql = "select catalogue($1, $2::text::uuid)::text";
        let text: Option<String> = self.of_session(session, sql, &[]).await?;
        text.map(|text| read(&text)).transpose()
    }

    /// Says that the object store has a catalogue up to here ([`Catalogue::seq`]).
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn catalogued_runs(&self, session: SessionId, upto: u64) -> Result<(), Error> {
        let upto = upto.cast_signed();
        let sql = "select catalogued_runs($1, $2::text::uuid, $3)";
        self.of_session::<bool>(session, sql, &[&upto]).await?;
        Ok(())
    }

    /// Makes the tables of a cluster from the catalogue of another, which is lost, and gives it another random name. Returns its first
    /// catalogue. What logs alone had is lost; generations rise above all that the lost ones can have had.
    ///
    /// # Errors
    /// [`Error::Exists`], the catalogue is not whole, or the server does not answer: there may be the tables all the same.
    pub async fn rebuild(&self, of: &Catalogue, name: u128) -> Result<Catalogue, Error> {
        if of.shards.len() != usize::from(SHARDS) {
            let why = format!("the catalogue has {} shards", of.shards.len());
            return Err(Failure::Unreadable(why).into());
        }
        let text = serde_json::to_string(of);
        let text = text.map_err(|error| Failure::Unreadable(error.to_string()))?;
        let mut line = self.open("abide rebuild").await?;
        if !self.create(&line).await? {
            return Err(Error::Exists);
        }
        let rebuild = "select rebuild($1::text::jsonb, $2::text::uuid)::text";
        let rows = line.query(rebuild, &[&text, &uuid(name)]).await?;
        let first = rows.first().map_or("", |row| row.get(0));
        let first = read(first)?;
        line.batch("commit").await?;
        confirmed(&line)?;
        Ok(first)
    }
}
