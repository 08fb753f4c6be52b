//! What the node knows of an object's alarms, and how it changes: plain data in the header of a record and in the alarm
//! index.

use serde::{Deserialize, Serialize};

/// What the node knows of an object's alarms without opening the object: the first alarm, and flags that cover all of
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are flags, saved as bits"
)]
pub struct AlarmEntry {
    /// When the first pending alarm is due, in milliseconds since 1970; in steady time if [`wait`](Self::wait). If all
    /// were given up: when one of them was due. See [`Self::due_at`].
    pub due: i64,
    /// Attempts of that alarm begun so far; 65 535 also stands for any larger number.
    pub attempts: u16,
    /// All alarms were given up: they wait for an operator to run them again.
    pub failed: bool,
    /// The last attempt of an alarm failed, or the process ended during it. It will be retried.
    pub failing: bool,
    /// An attempt with this isolation has begun, and its end is not recorded.
    pub begun: Option<Isolation>,
    /// That attempt began in an earlier epoch. Not saved: set only for changes the index has received since the start.
    pub cut_off: bool,
    /// An alarm is due after a duration, not at a time of the clock: [`due`](Self::due) is in steady time, the wall
    /// clock plus the sum of its steps back ([`ClockTime`](crate::ClockTime)). If another alarm of the object, for a time of the clock, is
    /// due first, the entry becomes early with the next step back, and is corrected when it comes up.
    pub wait: bool,
    /// An alarm has a name.
    pub named: bool,
    /// An alarm was given up, and the object has named alarms.
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

    /// When the first pending alarm is due by the wall clock, whose steps back have this sum.
    pub fn due_at(&self, set_back: i64) -> i64 {
        if self.wait {
            self.due.saturating_sub(set_back).max(1)
        } else {
            self.due
        }
    }

    /// Returns whether the index and the rows of an object agree.
    ///
    /// The index may be early if the object has waits ([`Self::wait`]).
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
            cut_off: row.cut_off,
            ..known
        };
        known == row
    }
}

/// How far an attempt is isolated from other suspects. Suspects are attempts that were running when an earlier process
/// ended: one of them may have crashed it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Not a suspect.
    #[default]
    Free,
    /// It was running when a process ended; it now runs beside at most a few other suspects.
    Few,
    /// A process ended again while it ran beside a few others: no other suspect may run.
    Alone,
}

/// The flags of an entry, as bits. Runs and records store them at different offsets.
pub(crate) mod flags {
    use super::{AlarmEntry, Isolation};

    const FAILED: u32 = 1;
    const FAILING: u32 = 2;
    const BEGUN: u32 = 4;
    const FEW: u32 = 8;
    const ALONE: u32 = 16;
    const WAIT: u32 = 32;
    const NAMED: u32 = 64;
    const SOME_FAILED: u32 = 128;

    /// All flags.
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

    /// `None` if the bits are not a combination that is ever written.
    pub(crate) fn entry(bits: u32, due: i64, attempts: u16) -> Option<AlarmEntry> {
        let begun = match bits & (BEGUN | FEW | ALONE) {
            0 => None,
            BEGUN => Some(Isolation::Free),
            bits if bits == BEGUN | FEW => Some(Isolation::Few),
            bits if bits == BEGUN | ALONE => Some(Isolation::Alone),
            _ => return None,
        };
        (bits & !ALL == 0).then_some(AlarmEntry {
            due,
            attempts,
            failed: bits & FAILED != 0,
            failing: bits & FAILING != 0,
            begun,
            cut_off: false,
            wait: bits & WAIT != 0,
            named: bits & NAMED != 0,
            some_failed: bits & SOME_FAILED != 0,
        })
    }
}

/// A change of an object's alarms, which travels with the transaction that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmChange {
    /// The current entry.
    Set(AlarmEntry),
    /// The object has no alarm any more.
    Cleared,
}
