//! The resource's side: it refuses holders whose lease is older than one that it has seen.

use abide::{Ctx, Error, Result};
use abide_component::tables::TablesSql;

use super::{LockError, Token};
use crate::patterns::{limits::MAX_RESOURCE_BYTES, wrong_length};

/// A resource of an object that a [`Lock`](super::Lock) protects. Open it in the constructor.
#[derive(Clone, Debug)]
pub struct Fence {
    sql: TablesSql,
    resource: String,
}

impl Fence {
    /// The fence around a resource of this object; makes the table `lock_fences` if there is none.
    ///
    /// # Errors
    /// [`LockError::Invalid`] if the name has no or more than
    /// [`MAX_RESOURCE_BYTES`] bytes.
    pub fn open(ctx: &Ctx, resource: &str) -> Result<Self, LockError> {
        if let Some(wrong) = wrong_length("the resource's name", resource, MAX_RESOURCE_BYTES) {
            return Err(LockError::Invalid(wrong));
        }
        let sql = TablesSql::open(ctx, "lock_fences", |storage| {
            let table = "CREATE TABLE IF NOT EXISTS lock_fences (
                 resource TEXT PRIMARY KEY, timeline TEXT NOT NULL, number INTEGER NOT NULL
             ) WITHOUT ROWID";
            storage.sql().exec(table, ()).map(drop)
        })?;
        Ok(Self {
            sql,
            resource: resource.to_owned(),
        })
    }

    /// Admits the holder with this token, and from now on none with a lower one. What it then writes before the next
    /// `await` is one transaction with this.
    ///
    /// # Errors
    /// [`LockError::Stale`] if a holder with a higher token was admitted before.
    pub fn admit(&self, token: Token) -> Result<(), LockError> {
        let newest = self.newest()?;
        if newest.is_some_and(|newest| token < newest) {
            return Err(LockError::Stale {
                token,
                newest: newest.unwrap_or(token),
            });
        }
        if newest != Some(token) {
            self.sql.exec(
                "INSERT OR REPLACE INTO lock_fences (resource, timeline, number) VALUES (?1, ?2, ?3)",
                (&self.resource, token.timeline.to_string(), token.number),
            )?;
        }
        Ok(())
    }

    /// The highest token that was admitted.
    pub fn newest(&self) -> Result<Option<Token>> {
        let select = "SELECT timeline, number FROM lock_fences WHERE resource = ?1";
        let newest: Option<(String, i64)> = self.sql.exec(select, (&self.resource,))?.optional()?;
        newest
            .map(|(timeline, number)| {
                let timeline = timeline.parse().map_err(Error::from_std)?;
                Ok(Token { timeline, number })
            })
            .transpose()
    }
}
