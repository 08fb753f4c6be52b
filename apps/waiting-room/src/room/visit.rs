//! The outcome of a visit.

use crate::ticket::{Ticket, VisitorId};

/// Where a visitor is in the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The people ahead.
    pub ahead: u64,
    /// The estimated wait; absent if it cannot be estimated.
    pub minutes: Option<f64>,
    /// The queue does not move: an event has not begun, or every visitor is held.
    pub is_held: bool,
}

/// The outcome of a visit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The visitor enters. The ticket is given if it is another than the visitor has.
    Enter(VisitorId, Option<Ticket>),
    /// The visitor waits, with this ticket.
    Wait(Ticket, Place),
    /// The room is full and keeps no places.
    Full,
    /// It could not be put on disk, so nothing is promised.
    TryAgain,
}
