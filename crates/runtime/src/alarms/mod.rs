//! Alarms: an object requests to be woken at a time, and is, at least once.
//!
//! # The path of an alarm
//!
//! ```text
//! Storage::set_alarm ── the row, in the poll's transaction ──▶ the store's index
//!                                                                  │ due
//!          begin: attempt counted, retry time set ◀─AlarmRequest─ Scheduler (of each worker) or Suspects
//!                           │ durable
//!                           ▼
//!          Event::Alarm ──▶ handler ──▶ end: cleared, moved, to be tried again, or given up
//! ```
//!
//! # Guarantees
//!
//! 1. No code of the object runs for an alarm, not even its constructor, before the attempt is durably counted and has
//!    a time for the next one. An object that crashes the process whenever it wakes therefore neither loops nor starts
//!    over each time.
//! 2. An object has one attempt at a time, whichever of its alarms is due: the store's index does not return an object
//!    again before it is finished. Among several due alarms, the one that has been due longest goes first.
//! 3. The end of an attempt is written in the transaction of the handler's last poll. If that poll, or the object, did
//!    not survive, it is written in its own transaction ([`Cause::Broken`]). If the process did not survive, the row
//!    still records that the attempt has begun, and in which epoch: it counts as begun, not as failed, and is retried
//!    [in isolation](suspects).
//! 4. The index mirrors the rows, and only the rows determine when an alarm is due. When the alarm fires, the object
//!    re-reads its row. If the time has changed, only the index is corrected, and the alarm fires again at its time.
//! 5. An alarm that is set in an attempt, or after one that the process did not survive, has its own count of attempts.
//!    If the process did not survive that attempt, the new alarm waits as long as the next attempt of the old one would,
//!    and longer with each consecutive crash.

mod firer;
mod info;
mod named;
mod request;
mod retry;
mod scheduler;
mod suspects;
mod time;

pub use self::{
    info::{AlarmInfo, AlarmListing, AlarmStatus},
    named::Alarm,
    retry::AlarmRetry,
    time::ScheduledTime,
};
pub(crate) use self::{
    request::{AlarmRequest, Cause},
    scheduler::Schedulers,
    suspects::fire_suspects,
};
