//! The list of runs, which sessions read, and in which one of them replaces runs by larger ones.

use std::time::Duration;

use abide_cluster::{SessionId, Stored};
use serde::{Deserialize, de::DeserializeOwned};
use tokio_postgres::types::{FromSql, ToSql};

use crate::{Database, Error, database::confirmed, error::Failure, name::uuid};

/// A run of history that is listed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Listed {
    /// Runs are told in this order, which is not dense.
    pub seq: u64,
    /// The first of the places that it has in the list.
    pub first: u64,
    /// The last of them. One that was merged has those of all that it has replaced.
    pub last: u64,
    /// As [`Stored::about`].
    pub about: String,
    /// As [`Stored::place`].
    pub place: String,
}

impl Database {
    /// The runs that were listed after one ([`Listed::seq`]), in the order of their places; all after 0. None is listed before one that was
    /// returned. The session has the list up to there. `None` if the session is fenced.
    ///
    /// # Errors
    /// The server does not answer, or does not confirm that what it says is on the standby.
    pub async fn runs(&self, session: SessionId, after: u64) -> Result<Option<Vec<Listed>>, Error> {
        let sql = "select runs_after($1, $2::text::uuid, $3)::text";
        let after = after.cast_signed();
        let text: Option<String> = self.of_session(session, sql, &[&after]).await?;
        text.map(|text| read(&text)).transpose()
    }

    /// Lets the session merge runs, remove those that were replaced, and write the catalogue, until it [ends that](Self::end_merge) or is
    /// fenced. Returns up to where there is a catalogue; `None` if another session does it now, or if this one is fenced.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn begin_merge(&self, session: SessionId) -> Result<Option<u64>, Error> {
        let sql = "select begin_merge($1, $2::text::uuid)";
        let catalogued: Option<i64> = self.of_session(session, sql, &[]).await?;
        Ok(catalogued.map(i64::cast_unsigned))
    }

    /// Lets other sessions merge runs.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn end_merge(&self, session: SessionId) -> Result<(), Error> {
        let sql = "select end_merge($1, $2::text::uuid)";
        self.of_session::<bool>(session, sql, &[]).await?;
        Ok(())
    }

    /// Lists a run in place of others, from which it was merged. False if the session is fenced, or if one of the others is not listed.
    ///
    /// # Errors
    /// The server does not answer. The run may be listed all the same: try again until there is an answer.
    pub async fn replace_runs(
        &self,
        session: SessionId,
        places: &[String],
        merged: &Stored,
    ) -> Result<bool, Error> {
        let sql = "select replace_runs($1, $2::text::uuid, $3, $4, $5)";
        let params: [&(dyn ToSql + Sync); 3] = [&places, &merged.about, &merged.place];
        self.of_session(session, sql, &params).await
    }

    /// The places of some runs that were replaced this long ago, that no session reads any more, and that the catalogue does not have. None
    /// if the session is fenced.
    ///
    /// # Errors
    /// The server does not answer, or does not confirm that what it says is on the standby.
    pub async fn unread_runs(
        &self,
        session: SessionId,
        keep: Duration,
    ) -> Result<Vec<String>, Error> {
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let sql = "select coalesce(unread_runs($1, $2::text::uuid, $3), '{}')";
        self.of_session(session, sql, &[&keep]).await
    }

    /// Forgets runs that were removed.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn removed_runs(&self, session: SessionId, places: &[String]) -> Result<(), Error> {
        let sql = "select removed_runs($1, $2::text::uuid, $3)";
        self.of_session::<bool>(session, sql, &[&places]).await?;
        Ok(())
    }

    /// Executes a statement of a session, whose first two parameters name it.
    pub(crate) async fn of_session<T: for<'a> FromSql<'a>>(
        &self,
        session: SessionId,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<T, Error> {
        let mut line = self.open("abide runs").await?;
        let (me, nonce) = (session.number.cast_signed(), uuid(session.nonce));
        let own: [&(dyn ToSql + Sync); 2] = [&me, &nonce];
        let rows = line.query(sql, &[&own, params].concat()).await?;
        confirmed(&line)?;
        let row = rows.first();
        let row = row.ok_or_else(|| Error::Unavailable("it did not answer".to_owned()))?;
        Ok(row.get(0))
    }
}

/// What the server says as JSON.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let read = serde_json::from_str(text);
    Ok(read.map_err(|error| Failure::Unreadable(error.to_string()))?)
}
