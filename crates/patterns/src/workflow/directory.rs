//! A workflow's directory: where each of its instances is.

use std::cell::Cell;

use abide::{Result, Sql, State};

use super::{Filter, Listed, Page, limits};
use crate::broken::{Variant, broken};
use crate::tables;

pub(super) struct Directory {
    sql: Sql,
    /// True when the tables are known to be there.
    is_prepared: Cell<bool>,
}

impl Directory {
    pub(super) fn new(state: &State) -> Self {
        Self {
            sql: state.storage().sql(),
            is_prepared: Cell::new(false),
        }
    }

    fn prepare(&self) -> Result<()> {
        if self.is_prepared.get() {
            return Ok(());
        }
        self.sql.exec(
            "CREATE TABLE IF NOT EXISTS workflow_directory (
                 id         TEXT PRIMARY KEY,
                 status     TEXT NOT NULL,
                 error      TEXT,
                 created_at INTEGER NOT NULL,
                 updated_at INTEGER NOT NULL,
                 version    INTEGER NOT NULL
             ) WITHOUT ROWID;
             CREATE INDEX IF NOT EXISTS workflow_directory_age ON workflow_directory (created_at, id);
             CREATE INDEX IF NOT EXISTS workflow_directory_status ON workflow_directory (status, created_at, id)",
            (),
        )?;
        self.is_prepared.set(true);
        Ok(())
    }

    fn exists(&self) -> Result<bool> {
        tables::exists(&self.sql, "workflow_directory")
    }

    pub(super) fn list(&self, listed: &Listed, version: i64) -> Result<()> {
        self.prepare()?;
        if broken(Variant::StaleListed) {
            self.forget(&listed.id, i64::MAX)?;
        }
        self.sql.exec(
            "INSERT INTO workflow_directory (id, status, error, created_at, updated_at, version)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (id) DO UPDATE SET status = excluded.status, error = excluded.error,
                 created_at = excluded.created_at, updated_at = excluded.updated_at, version = excluded.version
             WHERE excluded.version > version",
            (
                &listed.id,
                listed.status.as_str(),
                listed.error.as_deref(),
                listed.created_at,
                listed.updated_at,
                version,
            ),
        )?;
        Ok(())
    }

    pub(super) fn forget(&self, id: &str, version: i64) -> Result<()> {
        if self.exists()? {
            let sql = "DELETE FROM workflow_directory WHERE id = ?1 AND version <= ?2";
            self.sql.exec(sql, (id, version))?;
        }
        Ok(())
    }

    pub(super) fn page(&self, filter: &Filter) -> Result<Page> {
        if !self.exists()? {
            return Ok(Page::default());
        }
        let limit = match filter.limit {
            limit @ 1..=limits::MAX_PAGE => limit,
            _ => limits::MAX_PAGE,
        };
        let (time, id) = match &filter.after {
            Some((time, id)) => (*time, id.as_str()),
            None => (i64::MAX, ""),
        };
        let status = filter.status.map(super::Status::as_str);
        let condition = if status.is_some() {
            "status = ?4 AND"
        } else {
            "?4 IS NULL AND"
        };
        let sql = format!(
            "SELECT id, status, error, created_at, updated_at FROM workflow_directory
             WHERE {condition} (created_at, id) < (?1, ?2) ORDER BY created_at DESC, id DESC LIMIT ?3"
        );
        let rows = i64::try_from(limit).unwrap_or(i64::MAX);
        let instances: Vec<Listed> = self.sql.exec(&sql, (time, id, rows, status))?.to_array()?;
        let full = instances.len() == limit;
        let last = instances.last().filter(|_| full);
        Ok(Page {
            next: last.map(|last| (last.created_at, last.id.clone())),
            instances,
        })
    }
}
