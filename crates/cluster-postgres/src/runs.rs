//! The list of runs.

use abide_cluster::Stored;

use crate::{Database, Error};

/// A run of history that is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Runs are read in this order, which is not dense.
    pub seq: u64,
    /// The run, as its session has described it.
    pub stored: Stored,
}

impl Database {
    /// The runs that were listed after one, in order; all after 0. None is listed before one that was returned.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn runs(&self, after: u64) -> Result<Vec<Listed>, Error> {
        let mut line = self.open("abide runs").await?;
        let sql = "select seq, about, place from run where seq > $1 order by seq";
        let rows = line.query(sql, &[&after.cast_signed()]).await?;
        let listed = rows.iter().map(|row| Listed {
            seq: row.get::<_, i64>(0).cast_unsigned(),
            stored: Stored {
                about: row.get(1),
                place: row.get(2),
            },
        });
        Ok(listed.collect())
    }
}
