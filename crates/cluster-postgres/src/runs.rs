//! The list of runs.

use crate::{Database, Error, name::bits};

/// A run of history that is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Runs are read in this order, which is not dense.
    pub seq: u64,
    /// The random part of the name of the session that has published it.
    pub nonce: u128,
    /// Its number among those of the session.
    pub number: u64,
}

impl Database {
    /// The runs that were listed after one, in order; all after 0. None is listed before one that was returned.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn runs(&self, after: u64) -> Result<Vec<Listed>, Error> {
        let mut line = self.open("abide runs").await?;
        let sql = "select seq, nonce::text, number from run where seq > $1 order by seq";
        let rows = line.query(sql, &[&after.cast_signed()]).await?;
        let listed = rows.iter().map(|row| {
            let nonce: &str = row.get(1);
            Ok(Listed {
                seq: row.get::<_, i64>(0).cast_unsigned(),
                nonce: bits(nonce)
                    .ok_or_else(|| Error::Unavailable(format!("{nonce} is no uuid")))?,
                number: row.get::<_, i64>(2).cast_unsigned(),
            })
        });
        listed.collect()
    }
}
