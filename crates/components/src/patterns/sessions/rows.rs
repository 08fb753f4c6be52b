//! Sessions as rows, in the database of the object that holds them.

use abide::{Ctx, Result};
use serde::Deserialize;

use super::id::digest;
use crate::patterns::limits::MAX_SESSIONS_SWEPT;
use abide_component::{
    numbers::rows,
    tables::{self, TablesSql},
};

const META: &str = "sessions_meta";

/// The version of the tables, kept in `sessions_meta`.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE sessions (
        digest     BLOB PRIMARY KEY,
        subject    TEXT NOT NULL,
        data       TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX sessions_expire ON sessions (expires_at);
    CREATE INDEX sessions_subject ON sessions (subject);
    CREATE TABLE sessions_meta (version INTEGER NOT NULL);
";

#[derive(Debug)]
pub(super) struct Rows(TablesSql);

#[derive(Deserialize)]
pub(super) struct Row {
    pub(super) subject: String,
    pub(super) data: String,
    pub(super) created_at: i64,
    pub(super) expires_at: i64,
}

impl Rows {
    pub(super) fn open(ctx: &Ctx) -> Result<Self> {
        let sql = TablesSql::open(ctx, META, |storage| {
            tables::prepare(storage, "sessions", META, VERSION, |sql| {
                sql.exec(TABLES, ()).map(drop)
            })
        })?;
        Ok(Self(sql))
    }

    pub(super) fn insert(
        &self,
        id: &str,
        subject: &str,
        data: &str,
        now: i64,
        expires_at: i64,
    ) -> Result<()> {
        let insert = "INSERT INTO sessions (digest, subject, data, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)";
        let row = (digest(id), subject, data, now, expires_at);
        self.0.exec(insert, row).map(drop)
    }

    pub(super) fn get(&self, id: &str, now: i64) -> Result<Option<Row>> {
        let select = "SELECT subject, data, created_at, expires_at FROM sessions WHERE digest = ?1 AND expires_at > ?2";
        self.0.exec(select, (digest(id), now))?.optional()
    }

    pub(super) fn set_end(&self, id: &str, expires_at: i64) -> Result<()> {
        let update = "UPDATE sessions SET expires_at = ?2 WHERE digest = ?1";
        self.0.exec(update, (digest(id), expires_at)).map(drop)
    }

    pub(super) fn set_data(&self, id: &str, data: &str, now: i64) -> Result<bool> {
        let update =
            "UPDATE sessions SET data = ?2 WHERE digest = ?1 AND expires_at > ?3 RETURNING 1";
        Ok(!self.0.exec(update, (digest(id), data, now))?.is_empty())
    }

    pub(super) fn delete(&self, id: &str, now: i64) -> Result<bool> {
        let delete = "DELETE FROM sessions WHERE digest = ?1 AND expires_at > ?2 RETURNING 1";
        Ok(!self.0.exec(delete, (digest(id), now))?.is_empty())
    }

    pub(super) fn delete_of(&self, subject: &str, now: i64) -> Result<i64> {
        let delete = "DELETE FROM sessions WHERE subject = ?1 AND expires_at > ?2 RETURNING 1";
        Ok(rows(self.0.exec(delete, (subject, now))?.len()))
    }

    /// Deletes those that have expired, at most [`MAX_SESSIONS_SWEPT`] of them.
    pub(super) fn delete_expired(&self, now: i64) -> Result<i64> {
        let delete = "DELETE FROM sessions WHERE digest IN
            (SELECT digest FROM sessions WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2) RETURNING 1";
        Ok(rows(self.0.exec(delete, (now, MAX_SESSIONS_SWEPT))?.len()))
    }

    /// When the first expires.
    pub(super) fn next_end(&self) -> Result<Option<i64>> {
        let select = "SELECT min(expires_at) FROM sessions";
        self.0.exec(select, ())?.one()
    }

    /// All that are stored, also those that have expired.
    pub(super) fn count(&self) -> Result<i64> {
        self.0.exec("SELECT count(*) FROM sessions", ())?.one()
    }

    pub(super) fn count_at(&self, now: i64) -> Result<i64> {
        let select = "SELECT count(*) FROM sessions WHERE expires_at > ?1";
        self.0.exec(select, (now,))?.one()
    }
}
