//! Fencing tokens.

use std::fmt;

use abide::TimelineId;
use serde::{Deserialize, Serialize};

/// A fencing token: higher than those of all earlier leases of its lock, also after the lock's object was restored.
///
/// Tokens of one lock compare by the [timeline](abide::Ctx::timeline) of its object, then by a number. As text, which
/// has one length, they sort in the same way: give that to a resource outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    pub(super) timeline: TimelineId,
    pub(super) number: i64,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.timeline, self.number)
    }
}
