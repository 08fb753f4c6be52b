//! The rows: which screenshots a session has.
//!
//! Contract: a key belongs to one row. A row that is `held` is being worked on. When the object is loaded, it
//! releases the rows that a stopped process held: a first screenshot has failed, and a repeated one is as it was
//! before.

use abide::prelude::*;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    SessionError,
    browser::outcome::About,
    limits,
    request::{Job, Size},
};

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS shots (
        id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, url TEXT NOT NULL, taken_at INTEGER NOT NULL,
        state TEXT NOT NULL, held INTEGER NOT NULL, error TEXT, about TEXT, pictures TEXT NOT NULL DEFAULT '[]',
        has_steps INTEGER NOT NULL
    )";

/// What is left when the process stops while a page is open.
const INTERRUPTED: &str = "The server stopped while the screenshot was taken.";

const COLUMNS: &str = "id, key, url, taken_at, state, held, error, about, pictures, has_steps";

/// The outcome of a screenshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShotState {
    /// It is being taken.
    Taking,
    /// Its pictures are stored.
    Done,
    /// It has none.
    Failed,
}

/// A stored picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its size.
    pub size: Size,
    /// Where it is in the store.
    pub key: String,
    /// Its bytes.
    pub bytes: usize,
}

impl Picture {
    /// The pictures that a job stores, before they are taken.
    fn planned(key: &str, job: &Job) -> Vec<Self> {
        let picture = |(file, size)| Self {
            size,
            key: format!("{key}/{file}"),
            bytes: 0,
        };
        job.files().into_iter().map(picture).collect()
    }
}

/// A screenshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shot {
    /// Its number in the session.
    pub id: i64,
    /// What its pictures' keys begin with.
    pub key: String,
    /// The page.
    pub url: String,
    /// When, in milliseconds since 1970.
    pub taken_at: i64,
    /// Its outcome.
    pub state: ShotState,
    /// Why it failed, or why it could not be taken again.
    pub error: Option<String>,
    /// What the page said.
    pub about: Option<About>,
    /// Its pictures.
    pub pictures: Vec<Picture>,
}

/// A page of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// Newest first.
    pub screenshots: Vec<Shot>,
    /// The `before` of the next page, if there is one.
    pub next: Option<i64>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deleted {
    /// How many pictures.
    pub pictures: usize,
}

/// A row that is being worked on.
pub(super) struct Reserved {
    id: i64,
    /// What is to be stored.
    pub(super) pictures: Vec<Picture>,
}

#[derive(Deserialize)]
struct Row {
    id: i64,
    key: String,
    url: String,
    taken_at: i64,
    state: ShotState,
    held: i64,
    error: Option<String>,
    about: Option<String>,
    pictures: String,
    has_steps: i64,
}

impl Row {
    /// The files that are stored, or may be.
    fn files(&self) -> Result<Vec<Picture>> {
        serde_json::from_str(&self.pictures).map_err(Error::from_std)
    }

    fn shot(self) -> Result<Shot> {
        let pictures = match self.state {
            ShotState::Done => self.files()?,
            ShotState::Taking | ShotState::Failed => Vec::new(),
        };
        let about = self.about.map(|about| serde_json::from_str(&about));
        Ok(Shot {
            id: self.id,
            key: self.key,
            url: self.url,
            taken_at: self.taken_at,
            state: self.state,
            error: self.error,
            about: about.transpose().map_err(Error::from_std)?,
            pictures,
        })
    }
}

pub(super) struct Shots(Sql);

impl Shots {
    pub(super) fn open(sql: Sql) -> Result<Self> {
        sql.exec(TABLE, ())?;
        sql.exec(
            "UPDATE shots SET state = 'failed', error = ? WHERE held = 1 AND state = 'taking'",
            params![INTERRUPTED],
        )?;
        sql.exec("UPDATE shots SET held = 0 WHERE held = 1", ())?;
        Ok(Self(sql))
    }

    /// Finds a key for a job and holds its row: the time, rounded to five minutes. The same page again within these minutes
    /// replaces its pictures; another page gets a key with a number.
    pub(super) fn reserve(
        &self,
        session: &str,
        job: &Job,
        now: i64,
    ) -> Result<Reserved, SessionError> {
        if self.count()? >= limits::MAX_SHOTS {
            return Err(SessionError::Full);
        }
        let has_steps = !job.steps.is_empty();
        let base = format!("{session}/{}", rounded(now));
        for number in 1..=limits::MAX_KEYS {
            let key = match number {
                1 => base.clone(),
                number => format!("{base}-{number}"),
            };
            let query = format!("SELECT {COLUMNS} FROM shots WHERE key = ?");
            let row: Option<Row> = self.0.exec(&query, params![key])?.optional()?;
            let planned = Picture::planned(&key, job);
            let Some(row) = row else {
                let insert = "INSERT INTO shots (key, url, taken_at, state, held, pictures, has_steps) \
                              VALUES (?, ?, ?, 'taking', 1, ?, ?) RETURNING id";
                let files = serde_json::to_string(&planned).map_err(Error::from_std)?;
                let id = self
                    .0
                    .exec(
                        insert,
                        params![key, job.url, now, files, i64::from(has_steps)],
                    )?
                    .one()?;
                return Ok(Reserved {
                    id,
                    pictures: planned,
                });
            };
            // A repetition replaces a screenshot only if it writes the same files, since others would stay behind.
            // Steps lead to another page each time.
            let is_same = row.url == job.url && !has_steps && row.has_steps == 0;
            if is_same && row.held == 0 && same_files(&row.files()?, &planned) {
                let hold = "UPDATE shots SET held = 1, error = NULL, state = iif(state = 'failed', 'taking', state) WHERE id = ?";
                self.0.exec(hold, params![row.id])?;
                return Ok(Reserved {
                    id: row.id,
                    pictures: planned,
                });
            }
        }
        Err(SessionError::TooManyKeys)
    }

    pub(super) fn done(
        &self,
        reserved: &Reserved,
        about: &About,
        pictures: &[Picture],
        now: i64,
    ) -> Result<Shot> {
        let about = serde_json::to_string(about).map_err(Error::from_std)?;
        let pictures = serde_json::to_string(pictures).map_err(Error::from_std)?;
        let update = format!(
            "UPDATE shots SET state = 'done', held = 0, error = NULL, taken_at = ?, about = ?, pictures = ? WHERE id = ? \
             RETURNING {COLUMNS}"
        );
        let row: Row = self
            .0
            .exec(&update, params![now, about, pictures, reserved.id])?
            .one()?;
        row.shot()
    }

    pub(super) fn failed(&self, reserved: &Reserved, error: &str) -> Result<()> {
        self.0.exec(
            "UPDATE shots SET held = 0, error = ?, state = iif(state = 'taking', 'failed', state) WHERE id = ?",
            params![error, reserved.id],
        )?;
        self.0.exec(
            "DELETE FROM shots WHERE state = 'failed' AND held = 0 AND id NOT IN \
             (SELECT id FROM shots WHERE state = 'failed' ORDER BY id DESC LIMIT ?)",
            params![limits::MAX_FAILED],
        )?;
        Ok(())
    }

    pub(super) fn count(&self) -> Result<i64> {
        self.0.exec("SELECT count(*) FROM shots", ())?.one()
    }

    pub(super) fn get(&self, id: i64) -> Result<Option<Shot>> {
        self.row(id)?.map(Row::shot).transpose()
    }

    pub(super) fn list(&self, before: Option<i64>, limit: i64) -> Result<List> {
        let before = before.unwrap_or(i64::MAX);
        let query = format!("SELECT {COLUMNS} FROM shots WHERE id < ? ORDER BY id DESC LIMIT ?");
        let mut rows: Vec<Row> = self.0.exec(&query, params![before, limit + 1])?.all()?;
        let most = usize::try_from(limit).unwrap_or(0);
        let has_more = rows.len() > most;
        rows.truncate(most);
        Ok(List {
            next: rows.last().filter(|_| has_more).map(|row| row.id),
            screenshots: rows.into_iter().map(Row::shot).collect::<Result<_>>()?,
        })
    }

    /// Holds a row that is to be removed; returns the keys of its files. A failed screenshot may have stored some,
    /// too.
    pub(super) fn hold(&self, id: i64) -> Result<Vec<String>, SessionError> {
        let row = self.row(id)?.ok_or(SessionError::NotFound)?;
        if row.held == 1 {
            return Err(SessionError::InProgress);
        }
        self.0
            .exec("UPDATE shots SET held = 1 WHERE id = ?", params![id])?;
        Ok(row.files()?.into_iter().map(|file| file.key).collect())
    }

    pub(super) fn release(&self, id: i64) -> Result<()> {
        self.0
            .exec("UPDATE shots SET held = 0 WHERE id = ?", params![id])?;
        Ok(())
    }

    pub(super) fn delete(&self, id: i64) -> Result<()> {
        self.0.exec("DELETE FROM shots WHERE id = ?", params![id])?;
        Ok(())
    }

    fn row(&self, id: i64) -> Result<Option<Row>> {
        let query = format!("SELECT {COLUMNS} FROM shots WHERE id = ?");
        self.0.exec(&query, params![id])?.optional()
    }
}

/// True if both are the same files, in any order.
fn same_files(stored: &[Picture], planned: &[Picture]) -> bool {
    let is_planned = |stored: &Picture| planned.iter().any(|picture| picture.key == stored.key);
    stored.len() == planned.len() && stored.iter().all(is_planned)
}

/// A time rounded to five minutes, such as `2026-11-24T00:05Z`.
fn rounded(millis: i64) -> String {
    let half = limits::KEY_ROUNDING / 2;
    let rounded = millis.saturating_add(half) / limits::KEY_ROUNDING * limits::KEY_ROUNDING;
    let time = Timestamp::from_millisecond(rounded).unwrap_or(Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%MZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rounded_to_the_nearest_five_minutes() {
        let minute = 60_000;
        assert_eq!(rounded(0), "1970-01-01T00:00Z");
        assert_eq!(rounded(150_000 - 1), "1970-01-01T00:00Z");
        assert_eq!(rounded(150_000), "1970-01-01T00:05Z");
        assert_eq!(rounded(24 * 60 * minute - minute), "1970-01-02T00:00Z");
    }
}
