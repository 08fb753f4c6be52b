//! Rate limits by time window. They are part of the object's transactions, so neither a crash nor an eviction resets
//! them.

use std::time::Duration;

use abide::{Result, Sql};

/// The longest window. A row that ends later was written by a clock that was ahead.
const LONGEST: Duration = Duration::from_hours(24);

pub(crate) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS budgets (
        who   TEXT PRIMARY KEY,
        until INTEGER NOT NULL,
        used  INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS budgets_until ON budgets (until);
";

/// The maximum number of uses in a window.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// The action and the actor.
    who: String,
    most: u32,
    window: Duration,
}

impl Budget {
    pub(crate) fn new(what: &str, who: &str, most: u32, window: Duration) -> Self {
        let who = format!("{what} {who}");
        Self { who, most, window }
    }

    /// When the budget resets, in milliseconds since 1970, if it is exhausted.
    pub(crate) fn exhausted(&self, sql: &Sql, now: i64) -> Result<Option<i64>> {
        let latest = now.saturating_add(millis(LONGEST));
        sql.exec(
            "DELETE FROM budgets WHERE until <= ? OR until > ?",
            (now, latest),
        )?;
        sql.exec(
            "SELECT until FROM budgets WHERE who = ? AND used >= ?",
            (self.who.as_str(), self.most),
        )?
        .optional()
    }

    /// Uses it once. `Some` if it was exhausted: see [`exhausted`](Self::exhausted).
    pub(crate) fn spend(&self, sql: &Sql, now: i64) -> Result<Option<i64>> {
        if let Some(until) = self.exhausted(sql, now)? {
            return Ok(Some(until));
        }
        let until = now.saturating_add(millis(self.window));
        sql.exec(
            "INSERT INTO budgets (who, until, used) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET used = used + 1",
            (self.who.as_str(), until),
        )?;
        Ok(None)
    }
}

pub(crate) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
