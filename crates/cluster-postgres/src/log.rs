//! Reading the logs of sessions.

use std::pin::pin;

use abide_cluster::{Lsn, SessionId};
use futures_util::TryStreamExt as _;
use tokio::time::timeout;

use crate::{Database, Error, error::Failure, limits::STATEMENT_TIMEOUT, name::log_table};

impl Database {
    /// Reads the groups of a session's log that have records between two positions, in order, and calls `take` with the first and the last
    /// position of each and with its bytes, as they were appended.
    ///
    /// # Errors
    /// The server does not answer. [`Error::Missing`] if there is a gap: a part that is not archived is never removed, so its records
    /// are lost, or it is archived by now.
    pub async fn read(
        &self,
        session: SessionId,
        since: Lsn,
        until: Lsn,
        mut take: impl FnMut(Lsn, Lsn, &[u8]),
    ) -> Result<(), Error> {
        let line = self.open("abide read").await?;
        let [first, second] = [0, 1].map(|half| log_table(session.nonce, half));
        let sql = format!(
            "select lsn, until, payload from (table {first} union all table {second}) as log \
             where until > $1 and lsn < $2 order by until"
        );
        let range = [since, until].map(|at| at.0.cast_signed());
        let rows = line.client.query_raw(&sql, range);
        let mut rows = pin!(within(rows).await?);
        let mut next = since;
        while let Some(row) = within(rows.try_next()).await? {
            let [begin, end] = [0, 1].map(|column| Lsn(row.get::<_, i64>(column).cast_unsigned()));
            if begin > next {
                break;
            }
            take(begin, end, row.get(2));
            next = end;
        }
        if next < until {
            return Err(Error::Missing { session, at: next });
        }
        Ok(())
    }
}

/// Waits for a piece of an answer.
async fn within<T>(
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Failure> {
    let answered = timeout(STATEMENT_TIMEOUT, answer).await;
    Ok(answered.map_err(|_| Failure::Late(STATEMENT_TIMEOUT))??)
}
