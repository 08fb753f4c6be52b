//! Alarms: each object may have one unnamed alarm and several named ones. The node has one index over all objects.
//!
//! The rows in the object's own database ([`AlarmRow`]) are the truth, written in the transaction that sets them. What
//! the node needs to know, an [`AlarmEntry`](crate::AlarmEntry), travels in the header of the record that commits a row. The commit puts
//! it into the [`AlarmIndex`] before that object's next commit can. A checkpoint saves the changes to the index as a
//! *run*. A restart reads the runs and replays the log after them, without opening any object. If a run is damaged or
//! missing, the index is rebuilt from the rows.
//!
//! Invariant (s14): the index is never later than the rows.

mod index;
#[cfg(test)]
#[cfg(feature = "interleavings")]
mod interleavings;
mod row;
mod run;
mod shard;
mod wall_clock;

pub use index::{AlarmCounts, AlarmCursor, AlarmIndex, DueAlarm};
pub use row::{AlarmRow, BegunAttempt};
#[cfg(feature = "fuzzing")]
pub(crate) use run::seal as seal_run;
pub(crate) use run::{DamagedRun, Loaded, dir_of, load, remove_others, write};
pub use shard::AlarmState;
pub use wall_clock::ClockTime;
