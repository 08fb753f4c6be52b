//! Alarms: each object may have one of its own and others with a name, and the node has one index of all objects.
//!
//! The rows in the object's own database ([`AlarmRow`]) are the truth, written in the transaction of whoever sets them. What
//! the node needs to know of them, an [`AlarmEntry`], travels in the header of the record that commits a row, and the
//! commit puts it into the [`AlarmIndex`] before the next commit of that object can. A checkpoint saves what has changed
//! in the index as a *run*; a restart reads the runs and replays the log behind them, and opens no object for it. If a run
//! is damaged or missing, the index is rebuilt from the rows.
//!
//! Invariant (s14): the index never says later than the rows.

mod index;
#[cfg(test)]
#[cfg(feature = "interleavings")]
mod interleavings;
mod object;
mod rebuild;
mod row;
mod run;
mod shard;
mod wall_clock;

pub use index::{AlarmCounts, AlarmCursor, AlarmIndex, AlarmState, DueAlarm};
pub(crate) use object::KnownAlarms;
pub(crate) use rebuild::DamagedRun;
pub use row::{AlarmRow, BegunAttempt};
#[cfg(feature = "fuzzing")]
pub(crate) use run::seal as seal_run;
pub(crate) use run::{Loaded, Runs, dir_of, load, remove_others, write};
pub(crate) use wall_clock::ClockReading;

use serde::{Deserialize, Serialize};

/// What the node knows of an object's alarms without opening the object: of the first of them, and what is true of any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are marks, and saved as bits"
)]
pub struct AlarmEntry {
    /// When the first pending one is due, milliseconds since 1970. If all were given up: when one of them had been due.
    pub due: i64,
    /// Attempts of that one begun so far; 65 535 stands for more, too.
    pub attempts: u16,
    /// All were given up: they wait for somebody to run them again.
    pub failed: bool,
    /// The last attempt of one failed, or the process ended during it; it will be retried.
    pub failing: bool,
    /// An attempt with this isolation has begun and its end is not recorded.
    pub begun: Option<Isolation>,
    /// That attempt began in an epoch that is over. It is not saved: only one that the index was told of since is known.
    pub cut_off: bool,
    /// One is due when some time has passed, not when the clock shows some time. See [`AlarmIndex::clock_set_back`].
    pub wait: bool,
    /// One has a name.
    pub named: bool,
    /// One was given up, and the object has alarms with names.
    pub some_failed: bool,
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
            cut_off: false,
            wait: false,
            named: false,
            some_failed: false,
        }
    }

    /// True if what the index knows of an object's alarms is what its rows say.
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
            cut_off: row.cut_off,
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
    const NAMED: u32 = 64;
    const SOME_FAILED: u32 = 128;

    /// All of them.
    pub(crate) const ALL: u32 = FAILED | FAILING | BEGUN | FEW | ALONE | WAIT | NAMED | SOME_FAILED;

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
        let named = if entry.named { NAMED } else { 0 };
        let some_failed = if entry.some_failed { SOME_FAILED } else { 0 };
        begun | failed | failing | wait | named | some_failed
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
            cut_off: false,
            wait: marks & WAIT != 0,
            named: marks & NAMED != 0,
            some_failed: marks & SOME_FAILED != 0,
        })
    }
}

/// A change of an object's alarms, which travels with the transaction that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmChange {
    /// This is what there is now.
    Set(AlarmEntry),
    /// There is none any more.
    Cleared,
}
