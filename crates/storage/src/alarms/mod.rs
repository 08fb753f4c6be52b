//! Alarms: each object may have one, and the node has one index of all of them.
//!
//! The truth is a row in the object's own database ([`AlarmRow`]), written in the transaction of whoever sets it. What
//! the node needs to know of it, an [`AlarmEntry`], travels in the header of the record that commits the row, and the
//! commit puts it into the [`AlarmIndex`] before the next commit of that object can. A checkpoint saves what has changed
//! in the index as a *run*; a restart reads the runs and replays the log behind them, and opens no object for it.
//!
//! Invariant (s14): the index never says later than the row.

mod index;
mod row;
mod run;

pub use index::{AlarmCounts, AlarmCursor, AlarmIndex, AlarmState, DueAlarm};
pub use row::AlarmRow;
#[cfg(feature = "fuzzing")]
pub(crate) use run::seal as seal_run;
pub(crate) use run::{Runs, dir_of, load, remove_others, write};

/// What the node knows of an object's alarm without opening the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmEntry {
    /// When it is due, milliseconds since 1970. Of an alarm that was given up: when it had been due.
    pub due: i64,
    /// Attempts begun so far; 65 535 stands for more, too.
    pub attempts: u16,
    /// It was given up: it waits for somebody to run it again.
    pub failed: bool,
}

/// A change of the object's alarm, which travels with the transaction that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmChange {
    /// There is this alarm now.
    Set(AlarmEntry),
    /// There is no alarm any more.
    Cleared,
}
