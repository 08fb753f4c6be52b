//! The wall clock, as the manifest has it.

use crate::ident::Lsn;
use serde::{Deserialize, Serialize};

/// The newest known time of the wall clock, and the sum of its steps back, as the manifest has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClockReading {
    /// The end of the log at that time: earlier steps of the clock are in the sum.
    pub(crate) position: u64,
    /// Milliseconds since 1970; 0 if it has not been read yet.
    pub(crate) unix_millis: u64,
    /// The sum of the steps back, in milliseconds.
    pub(crate) set_back: i64,
}

impl ClockReading {
    /// Takes the time of a record. Those before the saved position are in the reading already.
    pub(crate) fn saw(&mut self, lsn: Lsn, unix_millis: u64) {
        if lsn.get() >= self.position {
            self.unix_millis = self.unix_millis.max(unix_millis);
        }
    }
}
