//! Destinations: what is known of where messages go to, and when each may be sent to again.
//!
//! Contract: a destination's `due_at` is the time at which a send pass looks at it: not later than the first of its messages
//! that may be sent. It is NULL if there is none, or if as many as allowed are on their way: then whoever ends one
//! sets it anew. So a pass looks at destinations that have something to send and may send it, and at no others.

use abide::Result;
use serde::{Deserialize, Serialize};

use super::{Breaker, Failure, Rate, bucket::Bucket, deliver::Fate, limits, sql::Sql};
use crate::numbers::{millis, rows};
use crate::texts::cut;

/// Where messages go to, as seen from outside. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// Its name: for HTTP the origin.
    pub destination: String,
    /// Nothing is sent to it before: it has asked for that, or its circuit breaker has opened.
    pub paused_until: Option<i64>,
    /// Failures in a row.
    pub failures: i64,
    /// Times that its circuit breaker has opened in a row; 0 while it is closed.
    pub opened: i64,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// A destination's row.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Row {
    pub(super) destination: String,
    pub(super) due_at: Option<i64>,
    full_at: i64,
    paused_until: Option<i64>,
    open_until: Option<i64>,
    failures: i64,
    opened: i64,
    last_error: Option<String>,
    /// When it had its last turn, counted in turns: of those that are due at once the one that has waited longest is next.
    pub(super) turn: i64,
}

macro_rules! row {
    () => {
        "destination, due_at, full_at, paused_until, open_until, failures, opened, last_error, turn"
    };
}

impl Row {
    pub(super) fn load(sql: &Sql, destination: &str) -> Result<Self> {
        let found: Option<Self> = sql
            .exec(
                concat!(
                    "SELECT ",
                    row!(),
                    " FROM outbox_destinations WHERE destination = ?1"
                ),
                (destination,),
            )?
            .optional()?;
        Ok(found.unwrap_or_else(|| Self {
            destination: destination.to_owned(),
            due_at: None,
            full_at: 0,
            paused_until: None,
            open_until: None,
            failures: 0,
            opened: 0,
            last_error: None,
            turn: 0,
        }))
    }

    /// Those that a pass is to look at, longest waiting first.
    pub(super) fn due(sql: &Sql, now: i64, limit: usize) -> Result<Vec<Self>> {
        sql.exec(
            concat!(
                "SELECT ",
                row!(),
                " FROM outbox_destinations WHERE due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at, turn LIMIT ?2"
            ),
            (now, rows(limit)),
        )?
        .to_array()
    }

    pub(super) fn save(&self, sql: &Sql) -> Result<()> {
        sql.exec(
            "INSERT INTO outbox_destinations (destination, due_at, full_at, paused_until, failures, opened, last_error,
                 open_until, turn)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (destination) DO UPDATE SET due_at = ?2, full_at = ?3, paused_until = ?4, failures = ?5,
                 opened = ?6, last_error = ?7, open_until = ?8, turn = ?9",
            (
                &self.destination,
                self.due_at,
                self.full_at,
                self.paused_until,
                self.failures,
                self.opened,
                &self.last_error,
                self.open_until,
                self.turn,
            ),
        )?;
        Ok(())
    }

    /// Until when nothing may be sent to it, if so. Pauses that are over are forgotten.
    pub(super) fn rests_until(&mut self, now: i64) -> Option<i64> {
        self.paused_until = self.paused_until.filter(|until| *until > now);
        self.open_until = self.open_until.filter(|until| *until > now);
        self.paused_until.max(self.open_until)
    }

    /// True while its circuit is not closed: one message at a time may probe it.
    pub(super) fn is_open(&self) -> bool {
        self.opened > 0
    }

    pub(super) fn bucket(&self, rate: Option<Rate>, now: i64) -> Bucket {
        Bucket::new(rate, self.full_at, now)
    }

    pub(super) fn set_bucket(&mut self, bucket: Bucket) {
        self.full_at = bucket.full_at();
    }

    /// It has answered: whatever was wrong with it is over. A pause that it asked for stays.
    pub(super) fn answered(&mut self) {
        self.failures = 0;
        self.opened = 0;
        self.open_until = None;
        self.last_error = None;
    }

    /// What a failed attempt says of it. `wait` is the time that the message waits by itself.
    pub(super) fn failed(&mut self, failure: &Failure, breaker: &Breaker, wait: i64, now: i64) {
        let asked = failure
            .after
            .map(|after| millis(after.min(limits::MAX_RETRY_AFTER)));
        match failure.fate {
            Fate::NotSent | Fate::CutOff => {}
            Fate::Permanent => self.answered(),
            Fate::Throttled => {
                self.answered();
                let wait = wait.min(millis(limits::MAX_THROTTLE_PAUSE));
                self.pause(now.saturating_add(asked.unwrap_or(wait)));
            }
            Fate::Refused | Fate::Unknown => {
                self.last_error = Some(cut(failure.error.clone(), limits::MAX_ERROR_BYTES));
                self.failures = self.failures.saturating_add(1);
                if let Some(asked) = asked {
                    self.pause(now.saturating_add(asked));
                }
                let threshold = i64::from(breaker.failures);
                // Attempts that were on their way when the circuit opened say nothing new.
                let news = self.open_until.is_none_or(|until| until <= now);
                if threshold > 0 && self.failures >= threshold && news {
                    let doublings = u32::try_from(self.opened).unwrap_or(0).min(30);
                    let pause = breaker
                        .pause
                        .saturating_mul(1 << doublings)
                        .min(breaker.max_pause);
                    self.opened = self.opened.saturating_add(1);
                    self.open_until = Some(now.saturating_add(millis(pause)));
                }
            }
        }
    }

    fn pause(&mut self, until: i64) {
        self.paused_until = self.paused_until.max(Some(until));
    }
}

/// A destination has answered well: [`Row::answered`], without reading its row; and it is looked at.
pub(super) fn answered(sql: &Sql, destination: &str, now: i64) -> Result<()> {
    sql.exec(
        "INSERT INTO outbox_destinations (destination, due_at) VALUES (?1, ?2)
         ON CONFLICT (destination) DO UPDATE SET due_at = ?2, failures = 0, opened = 0, open_until = NULL, last_error = NULL",
        (destination, now),
    )?;
    Ok(())
}

/// Has a destination looked at, not later than at this time.
pub(super) fn look_at(sql: &Sql, destination: &str, at: i64) -> Result<()> {
    sql.exec(
        "INSERT INTO outbox_destinations (destination, due_at) VALUES (?1, ?2)
         ON CONFLICT (destination) DO UPDATE SET due_at = min(coalesce(due_at, ?2), ?2)
         WHERE due_at IS NULL OR due_at > ?2",
        (destination, at),
    )?;
    Ok(())
}

/// Ends the rest of a destination, as if it had answered. True if it is known.
pub(super) fn resume(sql: &Sql, destination: &str, now: i64) -> Result<bool> {
    let known = sql.exec(
        "UPDATE outbox_destinations SET paused_until = NULL, open_until = NULL, failures = 0, opened = 0, due_at = ?2
         WHERE destination = ?1 RETURNING destination",
        (destination, now),
    )?;
    Ok(!known.is_empty())
}

/// Destinations, those with trouble first.
pub(super) fn list(sql: &Sql, limit: usize) -> Result<Vec<Destination>> {
    const COLUMNS: &str = "destination, failures, opened, last_error,
         max(coalesce(paused_until, open_until), coalesce(open_until, paused_until)) AS paused_until";
    let mut found: Vec<Destination> = sql
        .exec(
            &format!(
                "SELECT {COLUMNS} FROM outbox_destinations INDEXED BY outbox_destination_trouble
                 WHERE destination > '' AND (failures > 0 OR paused_until IS NOT NULL) ORDER BY destination LIMIT ?1"
            ),
            (rows(limit),),
        )?
        .to_array()?;
    let others: Vec<Destination> = sql
        .exec(
            &format!(
                "SELECT {COLUMNS} FROM outbox_destinations
                 WHERE destination > '' AND failures = 0 AND paused_until IS NULL ORDER BY destination LIMIT ?1"
            ),
            (rows(limit - found.len()),),
        )?
        .to_array()?;
    found.extend(others);
    Ok(found)
}
