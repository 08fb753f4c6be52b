//! Alarms: each object may have one, and the node has one index of all of them.
//!
//! The truth is a row in the object's own database ([`AlarmRow`]), written in the transaction of whoever sets it. What
//! the node needs to know of it, an [`AlarmEntry`], travels in the header of the record that commits the row, and the
//! commit puts it into the [`AlarmIndex`] before the next commit of that object can. A checkpoint saves what has changed
//! in the index as a *run*; a restart reads the runs and replays the log behind them, and opens no object for it. If a run
//! is damaged or missing, the index is rebuilt from the rows.
//!
//! Invariant (s14): the index never says later than the row.

mod index;
#[cfg(test)]
#[cfg(feature = "interleavings")]
mod interleavings;
mod rebuild;
mod row;
mod run;
mod shard;
mod wall_clock;

pub use index::{AlarmCounts, AlarmCursor, AlarmIndex, AlarmState, DueAlarm};
pub(crate) use rebuild::DamagedRun;
pub(crate) use row::KnownAlarm;
pub use row::{AlarmRow, BegunAttempt};
#[cfg(feature = "fuzzing")]
pub(crate) use run::seal as seal_run;
pub(crate) use run::{Loaded, Runs, dir_of, load, remove_others, write};
pub(crate) use wall_clock::ClockReading;

use serde::{Deserialize, Serialize};

/// What the node knows of an object's alarm without opening the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlarmEntry {
    /// When it is due, milliseconds since 1970. Of an alarm that was given up: when it had been due.
    pub due: i64,
    /// Attempts begun so far; 65 535 stands for more, too.
    pub attempts: u16,
    /// It was given up: it waits for somebody to run it again.
    pub failed: bool,
    /// Its last attempt failed, or the process ended during it; it will be retried.
    pub failing: bool,
    /// An attempt with this isolation has begun and its end is not recorded.
    pub begun: Option<Isolation>,
    /// It is due when some time has passed, not when the clock shows some time. See [`AlarmIndex::clock_set_back`].
    pub wait: bool,
}

impl AlarmEntry {
    /// An alarm without attempts.
    pub fn at(due: i64) -> Self {
        Self {
            due,
            attempts: 0,
            failed: false,
            failing: false,
            begun: None,
            wait: false,
        }
    }

    /// True if what the index knows of an object's alarm is what its row says.
    ///
    /// A wait may end earlier than its row says, because the clock was set back since. Saved runs of format 2 do not tell what is
    /// failing and those of format 4 not what waits; nothing depends on either.
    pub fn agree(known: Option<Self>, row: Option<Self>) -> bool {
        let (Some(known), Some(row)) = (known, row) else {
            return known == row;
        };
        let due = if row.wait {
            known.due.max(row.due)
        } else {
            known.due
        };
        let known = Self {
            due,
            failing: row.failing,
            wait: row.wait,
            ..known
        };
        known == row
    }
}

/// How far an attempt is kept apart from other suspects: attempts that ran when an earlier process ended. One of them may
/// have ended it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Not a suspect.
    #[default]
    Free,
    /// It ran when a process ended, and runs beside at most a few other suspects.
    Few,
    /// A process ended again while it ran beside a few: no other suspect may run.
    Alone,
}

/// The flags of an entry, as bits. Runs and records have them at different offsets.
pub(crate) mod marks {
    use super::{AlarmEntry, Isolation};

    const FAILED: u32 = 1;
    const FAILING: u32 = 2;
    const BEGUN: u32 = 4;
    const FEW: u32 = 8;
    const ALONE: u32 = 16;
    const WAIT: u32 = 32;

    /// All of them.
    pub(crate) const ALL: u32 = FAILED | FAILING | BEGUN | FEW | ALONE | WAIT;

    pub(crate) fn of(entry: &AlarmEntry) -> u32 {
        let begun = match entry.begun {
            None => 0,
            Some(Isolation::Free) => BEGUN,
            Some(Isolation::Few) => BEGUN | FEW,
            Some(Isolation::Alone) => BEGUN | ALONE,
        };
        let failed = if entry.failed { FAILED } else { 0 };
        let failing = if entry.failing { FAILING } else { 0 };
        let wait = if entry.wait { WAIT } else { 0 };
        begun | failed | failing | wait
    }

    /// `None` if no version writes these.
    pub(crate) fn entry(marks: u32, due: i64, attempts: u16) -> Option<AlarmEntry> {
        let begun = match marks & (BEGUN | FEW | ALONE) {
            0 => None,
            BEGUN => Some(Isolation::Free),
            marks if marks == BEGUN | FEW => Some(Isolation::Few),
            marks if marks == BEGUN | ALONE => Some(Isolation::Alone),
            _ => return None,
        };
        (marks & !ALL == 0).then_some(AlarmEntry {
            due,
            attempts,
            failed: marks & FAILED != 0,
            failing: marks & FAILING != 0,
            begun,
            wait: marks & WAIT != 0,
        })
    }
}

/// A change of the object's alarm, which travels with the transaction that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmChange {
    /// There is this alarm now.
    Set(AlarmEntry),
    /// There is no alarm any more.
    Cleared,
}
