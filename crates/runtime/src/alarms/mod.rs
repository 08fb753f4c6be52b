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
//! 2. An object has one attempt at a time, whichever of its alarms is due: the store's index does not give an object again
//!    before it is finished. Of several that are due, the one that has been for longest goes first.
//! 3. The end of an attempt is written in the transaction of the handler's last poll. If that poll, or the object, did
//!    not survive, it is written in one of its own ([`Cause::Broken`]). If the process did not, the row still says that it
//!    has begun, and in which epoch: it counts as begun, not as failed, and is tried again [apart](suspects).
//! 4. The index knows what the rows say and nothing else decides when an alarm is due; so a firing that finds another time
//!    in the row corrects the index at most, and the alarm fires again at its time.
//! 5. An alarm that is set in an attempt, or after one that the process did not survive, has attempts of its own. If the
//!    process did not survive that attempt, it waits as the next attempt of that one would, and longer each time in a row.

mod firer;
mod named;
mod node_clock;
mod retry;
mod scheduler;
mod suspects;
mod time;

use std::sync::Arc;

use abide_storage::{AlarmCursor, AlarmEntry, AlarmRow, AlarmState, Isolation, ObjectKey};
use tokio::sync::oneshot;

pub use self::{
    named::Alarm,
    retry::AlarmRetry,
    time::{AlarmTime, ScheduledTime},
};
pub(crate) use self::{node_clock::NodeClock, scheduler::Schedulers, suspects::fire_suspects};

use crate::{
    Error, ObjectId,
    envelope::{Replier, Ticket},
    limits::MAX_LISTED_ALARMS_OF_OBJECT,
};

/// What a handler is told of the alarm that went off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmInfo {
    /// The name of the alarm; `None` if it is the object's own, of [`Storage::set_alarm`](crate::Storage::set_alarm).
    pub name: Option<Arc<str>>,
    /// The time that the alarm was set to. A retry has the time of the first attempt.
    pub scheduled_time: AlarmTime,
    /// Attempts before this one. They are counted durably: a restart does not forget them.
    pub retry_count: u32,
    /// True if there were any.
    pub is_retry: bool,
}

impl AlarmInfo {
    pub(crate) fn new(name: &str, scheduled_time: AlarmTime, attempts: u32) -> Self {
        let retry_count = attempts.saturating_sub(1);
        Self {
            name: (!name.is_empty()).then(|| name.into()),
            scheduled_time,
            retry_count,
            is_retry: retry_count > 0,
        }
    }

    /// The name under which the object's database has the alarm.
    pub(crate) fn stored_name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

/// An object with alarms, as [`Node::alarms`](crate::Node::alarms) lists it: its first alarm, and what is true of any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmListing {
    /// The unique key of the object's namespace: its class's name, unless it was given another.
    pub class: String,
    /// The object.
    pub id: ObjectId,
    /// When the first one goes off or is tried again; if all were given up, the time one was set to.
    pub due: AlarmTime,
    /// Attempts of that one begun so far.
    pub attempts: u32,
    /// One was given up after its last retry.
    pub failed: bool,
    /// The last attempt of one failed, or ended with its process, and it will be retried.
    pub failing: bool,
    /// One has a name: [`Node::alarms_of`](crate::Node::alarms_of) tells of each.
    pub named: bool,
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
            failed: entry.failed || entry.some_failed,
            failing: entry.failing,
            named: entry.named,
            place: (entry.due, key),
        }
    }
}

/// An alarm of an object, as [`Node::alarms_of`](crate::Node::alarms_of) reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlarmStatus {
    /// Its name; `None` if it is the object's own.
    pub name: Option<Arc<str>>,
    /// When it goes off or is tried again; of one that was given up, the time it was set to.
    pub due: AlarmTime,
    /// Attempts begun so far.
    pub attempts: u32,
    /// It was given up after its last retry.
    pub failed: bool,
    /// Its last attempt failed, or ended with its process, and it will be retried.
    pub failing: bool,
    /// The error of the last attempt that failed.
    pub error: Option<String>,
    /// Attempts that were cut off by the end of the process. They count for no retry.
    pub cut_off: u32,
    /// How often the process has ended while an attempt ran with no other suspect beside it.
    pub crashes: u32,
}

impl AlarmStatus {
    /// What an object's database says of an alarm; its own has the empty name.
    pub fn new(name: &str, row: AlarmRow) -> Self {
        let entry = row.entry();
        Self {
            name: (!name.is_empty()).then(|| name.into()),
            due: AlarmTime::from_unix_millis(entry.due),
            attempts: row.attempts,
            failed: entry.failed,
            failing: entry.failing,
            error: row.error,
            cut_off: row.cut_off,
            crashes: row.crashes,
        }
    }

    /// Of the alarms of an object that is listed among those in this state, the ones for which it is, by time; at most
    /// [`MAX_LISTED_ALARMS_OF_OBJECT`](crate::limits::MAX_LISTED_ALARMS_OF_OBJECT).
    pub fn listed(mut all: Vec<Self>, state: AlarmState) -> Vec<Self> {
        all.sort_by_key(|alarm| alarm.due);
        // What was going off when the process ended is listed as failing, and no attempt may have failed yet.
        let any_failing = all.iter().any(|alarm| alarm.failing);
        all.retain(|alarm| match state {
            AlarmState::Failed => alarm.failed,
            AlarmState::Failing if any_failing => alarm.failing,
            AlarmState::Pending | AlarmState::Failing => !alarm.failed,
        });
        all.truncate(MAX_LISTED_ALARMS_OF_OBJECT);
        all
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
    /// It was given up or is failing, and is to run again; without a name, all of which that is true.
    Rerun(Replier, Option<Arc<str>>),
    /// Report all alarms.
    Describe(Replier, oneshot::Sender<Vec<AlarmStatus>>),
}
