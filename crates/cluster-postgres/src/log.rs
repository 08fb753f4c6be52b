//! Reading the logs of sessions.

use std::pin::pin;

use abide_cluster::{Lsn, Part};
use futures_util::TryStreamExt as _;
use tokio::time::timeout;

use crate::{
    Database, Error,
    error::Failure,
    limits::{ROW_BYTES, STATEMENT_TIMEOUT},
    name::log_table,
};

impl Database {
    /// Reads the records of a part of a session's log, in pieces of at most [`ROW_BYTES`], and calls `take` with each and its
    /// position. Records of other shards lie between those of the part's; a record can continue in the next piece.
    ///
    /// # Errors
    /// The server does not answer. [`Error::Missing`] if there is a gap: a part that is not archived is never removed, so its records
    /// are lost, or it is archived by now.
    pub async fn read(&self, part: &Part, mut take: impl FnMut(Lsn, &[u8])) -> Result<(), Error> {
        let (since, until) = (part.since.0, part.until.0);
        let line = self.open("abide read").await?;
        let [first, second] = [0, 1].map(|half| log_table(part.session.nonce, half));
        // A row that begins before the part can reach into it.
        let sql = format!(
            "select lsn, payload from (table {first} union all table {second}) as log \
             where lsn > $1 and lsn < $2 and lsn + octet_length(payload) > $3 order by lsn"
        );
        let params = [
            since
                .cast_signed()
                .saturating_sub((ROW_BYTES as u64).cast_signed()),
            until.cast_signed(),
            since.cast_signed(),
        ];
        let rows = line.client.query_raw(&sql, params);
        let mut rows = pin!(within(rows).await?);
        let mut next = since;
        while let Some(row) = within(rows.try_next()).await? {
            let begin = row.get::<_, i64>(0).cast_unsigned();
            let payload: &[u8] = row.get(1);
            let end = begin + payload.len() as u64;
            if begin > next {
                break;
            }
            let piece = &payload[(next - begin) as usize..(end.min(until) - begin) as usize];
            take(Lsn(next), piece);
            next = end.min(until);
        }
        if next < until {
            return Err(Error::Missing {
                session: part.session,
                at: Lsn(next),
            });
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
