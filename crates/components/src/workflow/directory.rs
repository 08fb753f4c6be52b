//! A workflow's directory: the status of each of its instances.

use std::cell::{Cell, RefCell};

use abide::{Ctx, Result, Sql};
use serde::{Deserialize, Serialize};

use super::{Filter, ListBy, Listed, Page, limits, metrics::Instances};
use abide_component::tables;

/// The version of an instance's status: a later one replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListedVersion {
    /// The timeline of the instance's object.
    pub timeline: String,
    /// Its number on that timeline.
    pub number: i64,
}

pub(super) struct Directory {
    pub(super) ctx: Ctx,
    pub(super) sql: Sql,
    /// True when the tables are known to exist.
    is_prepared: Cell<bool>,
    pub(super) workflow: String,
    /// Counted when the first instance tells something.
    instances: RefCell<Option<Instances>>,
}

impl Directory {
    pub(super) fn new(ctx: &Ctx) -> Self {
        Self {
            ctx: ctx.clone(),
            sql: ctx.sql(),
            is_prepared: Cell::new(false),
            workflow: ctx.name().unwrap_or_default(),
            instances: RefCell::default(),
        }
    }

    pub(super) fn prepare(&self) -> Result<()> {
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
                 timeline   TEXT NOT NULL,
                 version    INTEGER NOT NULL
             ) WITHOUT ROWID;
             CREATE INDEX IF NOT EXISTS workflow_directory_age ON workflow_directory (created_at, id);
             CREATE INDEX IF NOT EXISTS workflow_directory_status ON workflow_directory (status, created_at, id);
             CREATE INDEX IF NOT EXISTS workflow_directory_change ON workflow_directory (updated_at, id);
             CREATE INDEX IF NOT EXISTS workflow_directory_state ON workflow_directory (status, updated_at, id);
             CREATE TABLE IF NOT EXISTS workflow_directory_asking (after TEXT NOT NULL)",
            (),
        )?;
        self.is_prepared.set(true);
        Ok(())
    }

    pub(super) fn exists(&self) -> Result<bool> {
        tables::exists(&self.sql, "workflow_directory")
    }

    pub(super) fn list(&self, listed: &Listed, version: &ListedVersion) -> Result<()> {
        self.prepare()?;
        let known = self.known(&listed.id)?;
        self.sql.exec(
            "INSERT INTO workflow_directory (id, status, error, created_at, updated_at, timeline, version)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (id) DO UPDATE SET status = excluded.status, error = excluded.error,
                 created_at = excluded.created_at, updated_at = excluded.updated_at, timeline = excluded.timeline,
                 version = excluded.version
             WHERE (excluded.timeline, excluded.version) > (timeline, version)",
            (
                &listed.id,
                listed.status.as_str(),
                listed.error.as_deref(),
                listed.created_at,
                listed.updated_at,
                &version.timeline,
                version.number,
            ),
        )?;
        if known.as_ref().is_none_or(|(_, stored)| stored < version) {
            let before = known.as_ref().map(|(status, _)| status.as_str());
            self.moved(before, Some(listed.status.as_str()));
        }
        Ok(())
    }

    /// What is stored of an instance: its status and its version. Instances are counted before the first changes.
    fn known(&self, id: &str) -> Result<Option<(String, ListedVersion)>> {
        if self.instances.borrow().is_none() {
            let count = "SELECT status, count(*) FROM workflow_directory GROUP BY status";
            let counts: Vec<(String, i64)> = self.sql.exec(count, ())?.all()?;
            let instances = Instances::new(self.workflow.clone(), counts);
            *self.instances.borrow_mut() = Some(instances);
        }
        let stored = "SELECT status, timeline, version FROM workflow_directory WHERE id = ?1";
        let stored: Option<(String, String, i64)> = self.sql.exec(stored, (id,))?.optional()?;
        Ok(stored.map(|(status, timeline, number)| (status, ListedVersion { timeline, number })))
    }

    fn moved(&self, from: Option<&str>, to: Option<&str>) {
        if let Some(instances) = &mut *self.instances.borrow_mut() {
            instances.moved(from, to);
        }
    }

    pub(super) fn forget(&self, id: &str, version: &ListedVersion) -> Result<()> {
        if self.exists()? {
            let known = self.known(id)?;
            let sql =
                "DELETE FROM workflow_directory WHERE id = ?1 AND (timeline, version) <= (?2, ?3)";
            self.sql
                .exec(sql, (id, &version.timeline, version.number))?;
            if let Some((status, _)) = known.filter(|(_, stored)| stored <= version) {
                self.moved(Some(&status), None);
            }
        }
        Ok(())
    }

    pub(super) fn page(&self, filter: &Filter) -> Result<Page> {
        if !self.exists()? {
            return Ok(Page::default());
        }
        self.prepare()?;
        let limit = match filter.limit {
            limit @ 1..=limits::MAX_PAGE => limit,
            _ => limits::MAX_PAGE,
        };
        let time = match filter.by {
            ListBy::Started => "created_at",
            ListBy::Changed => "updated_at",
        };
        let before = (filter.before.unwrap_or(i64::MAX), "");
        let after = filter.after.as_ref();
        let after = after.map_or(before, |(time, id)| (*time, id.as_str()));
        let (time_below, id_below) = before.min(after);
        let status = filter.status.map(super::Status::as_str);
        let condition = if status.is_some() {
            "status = ?5"
        } else {
            "?5 IS NULL"
        };
        let sql = format!(
            "SELECT id, status, error, created_at, updated_at FROM workflow_directory
             WHERE {condition} AND ({time}, id) < (?1, ?2) AND {time} >= ?3 ORDER BY {time} DESC, id DESC LIMIT ?4"
        );
        let from = filter.from.unwrap_or(i64::MIN);
        let rows = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = (time_below, id_below, from, rows, status);
        let instances: Vec<Listed> = self.sql.exec(&sql, found)?.all()?;
        let full = instances.len() == limit;
        let last = instances.last().filter(|_| full);
        let place = |last: &Listed| match filter.by {
            ListBy::Started => (last.created_at, last.id.clone()),
            ListBy::Changed => (last.updated_at, last.id.clone()),
        };
        Ok(Page {
            next: last.map(place),
            instances,
        })
    }
}
