//! The destinations of an outbox: in memory while there are few, and in their table.
//!
//! Contract: the object is the only writer, so up to [`limits::KNOWN_DESTINATIONS`] destinations that have something to
//! send are cached in memory, read when first needed. A destination's errors are written to its row in the same
//! transaction. The rest of a row may lag behind memory, and is then still valid after a crash:
//!
//! - `due_at` is not later than the first sendable message. A time that is too early costs one look.
//! - `full_at`, when its bucket is full, is not earlier: up to [`limits::BUCKET_AHEAD`] of tokens are stored in
//!   advance. A crash loses unused ones.
//! - `served` and `turn`, which only decide who is next, are as of the last write of the row. The first attempts after
//!   an activation write them, so each activation continues with other turns than the previous one.
//!
//! A destination that is not in memory has no `due_at`. If there are more destinations, the table has all of them,
//! exactly.
//!
//! An enqueuing transaction may be rolled back without notice. So it moves `due_at` in memory only to an earlier time,
//! and the content of the table counts as known only if a turn of the task has written or read it.

use std::collections::BTreeMap;

use abide::{Result, params};

use super::{
    Pace,
    destination::{self, Row, row},
    limits,
    rows::Rows,
};
use abide_component::numbers::{micros, millis, rows};

/// The cache of destinations.
#[derive(Debug, Default)]
pub(super) enum Known {
    /// The table has not been read.
    #[default]
    Nothing,
    /// All that have something to send.
    All(BTreeMap<String, Entry>),
    /// There are too many: the table is authoritative.
    TooMany,
}

/// A destination in memory.
#[derive(Debug)]
pub(super) struct Entry {
    row: Row,
    /// The content of the table, if that is known.
    stored: Option<Row>,
    /// Whether the table was written since the object was activated.
    is_written: bool,
}

impl Entry {
    fn read(row: Row, stored: Option<Row>) -> Self {
        Self {
            row,
            stored,
            is_written: false,
        }
    }

    /// True if the table holds exactly this.
    fn is_stored(&self) -> bool {
        self.stored.as_ref() == Some(&self.row)
    }

    /// True if the table may stay as it is, given this state in memory, without losing anything.
    fn covers(&self, row: &Row) -> bool {
        let is_first = |stored: &Row| !self.is_written && row.served != stored.served;
        self.stored
            .as_ref()
            .is_some_and(|stored| row.is_covered_by(stored) && !is_first(stored))
    }
}

impl Rows {
    /// Reads those that have something to send, if that was not done.
    pub(super) fn read_destinations(&self) -> Result<()> {
        if !matches!(*self.destinations.borrow(), Known::Nothing) {
            return Ok(());
        }
        let found: Vec<Row> = self
            .sql
            .exec(
                concat!(
                    "SELECT ",
                    row!(),
                    " FROM outbox_destinations WHERE due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at LIMIT ?2"
                ),
                (i64::MAX, rows(limits::KNOWN_DESTINATIONS + 1)),
            )?
            .all()?;
        *self.destinations.borrow_mut() = if found.len() > limits::KNOWN_DESTINATIONS {
            Known::TooMany
        } else {
            let certain = self.is_turn();
            let entry = |row: Row| {
                let stored = certain.then(|| row.clone());
                (row.destination.clone(), Entry::read(row, stored))
            };
            Known::All(found.into_iter().map(entry).collect())
        };
        Ok(())
    }

    /// Clears the cache: the table holds something else.
    pub(super) fn forget_destinations(&self) {
        *self.destinations.borrow_mut() = Known::Nothing;
        *self.open.borrow_mut() = None;
    }

    /// The state of a destination.
    pub(super) fn destination(&self, name: &str) -> Result<Row> {
        self.read_destinations()?;
        if let Known::All(known) = &*self.destinations.borrow()
            && let Some(entry) = known.get(name)
        {
            return Ok(entry.row.clone());
        }
        let found: Option<Row> = self
            .sql
            .exec(
                concat!(
                    "SELECT ",
                    row!(),
                    " FROM outbox_destinations WHERE destination = ?1"
                ),
                (name,),
            )?
            .optional()?;
        let stored = found.clone().filter(|_| self.is_turn());
        let row = found.unwrap_or_else(|| Row::new(name));
        self.make_room()?;
        if let Known::All(known) = &mut *self.destinations.borrow_mut() {
            known.insert(name.to_owned(), Entry::read(row.clone(), stored));
        }
        Ok(row)
    }

    /// Makes room for one more in memory, or switches to the table.
    fn make_room(&self) -> Result<()> {
        let mut destinations = self.destinations.borrow_mut();
        let Known::All(known) = &mut *destinations else {
            return Ok(());
        };
        if known.len() < limits::KNOWN_DESTINATIONS {
            return Ok(());
        }
        let idle = known.values().find(|entry| entry.row.due_at.is_none());
        if let Some(entry) = idle {
            if !entry.is_stored() {
                self.write(&entry.row)?;
            }
            let name = entry.row.destination.clone();
            known.remove(&name);
            return Ok(());
        }
        for entry in known.values() {
            self.write(&entry.row)?;
        }
        *destinations = Known::TooMany;
        Ok(())
    }

    /// Writes what the table lacks; then it holds all destinations exactly.
    pub(super) fn write_destinations(&self) -> Result<()> {
        if let Known::All(known) = &mut *self.destinations.borrow_mut() {
            for entry in known.values_mut() {
                if !entry.is_stored() {
                    self.write(&entry.row)?;
                    entry.stored = Some(entry.row.clone());
                }
            }
        }
        Ok(())
    }

    /// Stores a destination's new state, in a turn of the task.
    pub(super) fn save_destination(&self, row: Row) -> Result<()> {
        let mut destinations = self.destinations.borrow_mut();
        let Known::All(known) = &mut *destinations else {
            return self.write(&row);
        };
        let known_before = known.get_mut(&row.destination);
        let due = match known_before {
            Some(entry) if entry.covers(&row) => {
                entry.row = row;
                return Ok(());
            }
            Some(entry) => entry.stored.as_ref().and_then(|stored| stored.due_at),
            None => None,
        };
        let mut ahead = row.clone();
        ahead.due_at = [due, row.due_at].into_iter().flatten().min();
        ahead.full_at = row.full_at.saturating_add(self.ahead(&row));
        self.write(&ahead)?;
        let entry = Entry {
            stored: Some(ahead),
            is_written: true,
            row,
        };
        known.insert(entry.row.destination.clone(), entry);
        Ok(())
    }

    /// For how many microseconds its tokens are stored in advance.
    fn ahead(&self, row: &Row) -> i64 {
        let rate = match self.options.pace {
            Pace::AtOnce { destination, .. } => destination.rate,
            Pace::Ticks { .. } => None,
        };
        let few = rate.is_some_and(|rate| rate.interval >= limits::BUCKET_AHEAD / 10);
        if few || row.is_held_back() {
            return 0;
        }
        micros(limits::BUCKET_AHEAD)
    }

    fn write(&self, row: &Row) -> Result<()> {
        *self.open.borrow_mut() = None;
        row.save(&self.sql)
    }

    /// Destinations whose circuit is open, at most as many as a list may have. Only the task may call this, because it
    /// reads state that will not be rolled back.
    pub(super) fn open_circuits(&self) -> Result<Vec<String>> {
        if let Some(known) = &*self.open.borrow() {
            return Ok(known.clone());
        }
        let open = destination::open(&self.sql)?;
        *self.open.borrow_mut() = Some(open.clone());
        Ok(open)
    }

    /// The destinations for a pass to look at, longest waiting first.
    pub(super) fn due_destinations(&self, now: i64, limit: usize) -> Result<Vec<Row>> {
        self.read_destinations()?;
        if let Known::All(known) = &*self.destinations.borrow() {
            let mut due: Vec<&Row> = known
                .values()
                .map(|entry| &entry.row)
                .filter(|row| row.due_at.is_some_and(|at| at <= now))
                .collect();
            due.sort_by_key(|row| (row.due_at, row.turn));
            return Ok(due.into_iter().take(limit).cloned().collect());
        }
        self.sql
            .exec(
                concat!(
                    "SELECT ",
                    row!(),
                    " FROM outbox_destinations WHERE due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at, turn LIMIT ?2"
                ),
                (now, rows(limit)),
            )?
            .all()
    }

    /// When the first is to be looked at.
    pub(super) fn next_destination(&self) -> Result<Option<i64>> {
        self.read_destinations()?;
        if let Known::All(known) = &*self.destinations.borrow() {
            return Ok(known.values().filter_map(|entry| entry.row.due_at).min());
        }
        self.sql
            .exec(
                "SELECT min(due_at) FROM outbox_destinations WHERE due_at IS NOT NULL",
                (),
            )?
            .one()
    }

    /// A destination has responded successfully, and is looked at.
    pub(super) fn destination_answered(&self, name: &str, now: i64) -> Result<()> {
        let mut row = self.destination(name)?;
        row.answered(now);
        row.due_at = Some(now);
        self.save_destination(row)
    }

    /// Schedules a look at a destination, not later than this time.
    pub(super) fn look_at(&self, name: &str, origin: Option<&str>, at: i64) -> Result<()> {
        self.destination(name)?;
        if let Known::All(known) = &mut *self.destinations.borrow_mut()
            && let Some(Entry { row, stored, .. }) = known.get_mut(name)
        {
            row.due_at = Some(row.due_at.map_or(at, |due| due.min(at)));
            if row.origin.is_none() {
                row.origin = origin.map(str::to_owned);
            }
            let known_due = stored.as_ref().and_then(|stored| stored.due_at);
            if known_due.is_some_and(|due| due <= at) {
                return Ok(());
            }
        }
        self.sql.exec(
            "INSERT INTO outbox_destinations (destination, due_at, origin) VALUES (?1, ?2, ?3)
             ON CONFLICT (destination) DO UPDATE SET due_at = min(coalesce(due_at, ?2), ?2)
             WHERE due_at IS NULL OR due_at > ?2",
            params![name, at, origin],
        )?;
        Ok(())
    }

    /// Schedules looks at destinations that were parked when a task or process stopped and are parked no more. Which
    /// ones were is not known: it selects all that would be looked at soon.
    pub(super) fn unpark_all(&self, now: i64) -> Result<()> {
        self.write_destinations()?;
        self.forget_destinations();
        let soon = now.saturating_add(millis(limits::PARKED));
        self.sql.exec(
            "UPDATE outbox_destinations SET due_at = ?1 WHERE due_at IS NOT NULL AND due_at > ?1 AND due_at <= ?2",
            (now, soon),
        )?;
        Ok(())
    }

    /// Schedules looks at parked destinations.
    pub(super) fn unpark(&self, names: &[String], now: i64) -> Result<()> {
        for name in names {
            if let Known::All(known) = &mut *self.destinations.borrow_mut() {
                if let Some(Entry { row, .. }) = known.get_mut(name) {
                    row.due_at = row.due_at.map(|due| due.min(now));
                }
                continue;
            }
            self.sql.exec(
                "UPDATE outbox_destinations SET due_at = ?2 WHERE destination = ?1 AND due_at > ?2",
                (name, now),
            )?;
        }
        Ok(())
    }
}
