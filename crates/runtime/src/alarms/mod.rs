//! Alarms: an object asks to be woken, and is, at least once.
//!
//! # An alarm's way
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
//! # What holds
//!
//! 1. No code of the object runs for an alarm, not even its constructor, before the attempt is counted durably and has a
//!    time for the next: an object that ends its process whenever it wakes neither loops nor starts from one each time.
//! 2. An object has one attempt at a time: the store's index does not give an alarm again before it is finished.
//! 3. The end of an attempt is written in the transaction of the handler's last poll. If that poll, or the object, did
//!    not survive, it is written in one of its own ([`Cause::Broken`]). If the process did not, the row still says that it
//!    has begun, and in which epoch: it counts as begun, not as failed, and is tried again [apart](suspects).
//! 4. The index knows what the rows say and nothing else decides when an alarm is due; so a firing that finds another time
//!    in the row corrects the index at most, and the alarm fires again at its time.
//! 5. An alarm that is set in an attempt, or after one that the process did not survive, has attempts of its own. If the
//!    process did not survive that attempt, it waits as the next attempt of that one would, and longer each time in a row.

mod firer;
mod node_clock;
mod retry;
mod scheduler;
mod suspects;
mod time;

use abide_storage::{AlarmCursor, AlarmEntry, AlarmRow, Isolation, ObjectKey};
use tokio::sync::oneshot;

pub(crate) use self::{node_clock::NodeClock, scheduler::Schedulers, suspects::fire_suspects};
pub use self::{
    retry::AlarmRetry,
    time::{AlarmTime, ScheduledTime},
};

use crate::{
    Error, ObjectId,
    envelope::{Replier, Ticket},
};

/// What a handler is told of the alarm that went off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmInfo {
    /// The time that the alarm was set to. A retry has the time of the first attempt.
    pub scheduled_time: AlarmTime,
    /// Attempts before this one. They are counted durably: a restart does not forget them.
    pub retry_count: u32,
    /// True if there were any.
    pub is_retry: bool,
}

impl AlarmInfo {
    pub(crate) fn new(scheduled_time: AlarmTime, attempts: u32) -> Self {
        let retry_count = attempts.saturating_sub(1);
        Self {
            scheduled_time,
            retry_count,
            is_retry: retry_count > 0,
        }
    }
}

/// An object's alarm, as [`Node::alarms`](crate::Node::alarms) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmListing {
    /// The unique key of the object's namespace: its class's name, unless it was given another.
    pub class: String,
    /// The object.
    pub id: ObjectId,
    /// When it goes off or is tried again; of one that was given up, the time it was set to.
    pub due: AlarmTime,
    /// Attempts begun so far.
    pub attempts: u32,
    /// It was given up after its last retry.
    pub failed: bool,
    /// Its last attempt failed, or ended with its process, and it will be retried.
    pub failing: bool,
    /// Its place in the list.
    pub place: AlarmCursor,
}

impl AlarmListing {
    pub(crate) fn new(class: String, key: ObjectKey, entry: AlarmEntry) -> Self {
        Self {
            class,
            id: ObjectId::from_bytes(key.id),
            due: AlarmTime::from_unix_millis(entry.due),
            attempts: u32::from(entry.attempts),
            failed: entry.failed,
            failing: entry.failing,
            place: (entry.due, key),
        }
    }
}

/// Failed attempts of an object's alarm, as [`Node::alarm_troubles`](crate::Node::alarm_troubles) reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlarmTroubles {
    /// The error of the last attempt that failed.
    pub error: Option<String>,
    /// Attempts that were cut off by the end of the process. They count for no retry.
    pub cut_off: u32,
    /// How often the process has ended while an attempt ran with no other suspect beside it.
    pub crashes: u32,
}

impl From<AlarmRow> for AlarmTroubles {
    fn from(row: AlarmRow) -> Self {
        Self {
            error: row.error,
            cut_off: row.cut_off,
            crashes: row.crashes,
        }
    }
}

/// What a worker is to do about an object's alarm, in a turn that runs none of the object's code.
pub(crate) struct AlarmRequest {
    pub(crate) binding: usize,
    pub(crate) id: ObjectId,
    pub(crate) cause: Cause,
}

pub(crate) enum Cause {
    /// It is due: begin an attempt, which is kept so far apart from others. Answered when that has ended, or was not needed.
    Due(Replier, Isolation),
    /// The incarnation that ran this attempt has ended.
    Broken {
        attempt: AlarmInfo,
        error: Error,
        _ticket: Ticket,
    },
    /// It was given up or is failing, and is to run again.
    Rerun(Replier),
    /// Report its failed attempts. The answer is `None` if there is no alarm.
    Describe(Replier, oneshot::Sender<Option<AlarmTroubles>>),
}
