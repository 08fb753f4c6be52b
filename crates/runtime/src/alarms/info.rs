//! What handlers and operators learn about alarms.

use std::sync::Arc;

use abide_storage::{AlarmCursor, AlarmEntry, AlarmRow, AlarmState, ObjectKey};

use crate::{ObjectId, Timestamp, limits::MAX_LISTED_ALARMS_OF_OBJECT};

/// What a handler learns about the alarm that fired.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlarmInfo {
    /// The name of the alarm; `None` for the object's unnamed alarm, set by
    /// [`Storage::set_alarm`](crate::Storage::set_alarm).
    pub name: Option<Arc<str>>,
    /// The time that the alarm was set to. A retry has the same time as the first attempt.
    pub scheduled_time: Timestamp,
    /// The number of attempts before this one. It is durable: a restart does not reset it.
    pub retry_count: u32,
    /// Whether there were earlier attempts.
    pub is_retry: bool,
}

impl AlarmInfo {
    pub(crate) fn new(name: &str, scheduled_time: Timestamp, attempts: u32) -> Self {
        let retry_count = attempts.saturating_sub(1);
        Self {
            name: (!name.is_empty()).then(|| name.into()),
            scheduled_time,
            retry_count,
            is_retry: retry_count > 0,
        }
    }

    /// The name under which the object's database stores the alarm.
    pub(crate) fn stored_name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

/// An object with alarms, as listed by [`Node::alarms`](crate::Node::alarms): its first alarm, and flags that cover all
/// of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlarmListing {
    /// The unique key of the object's namespace: by default the class name.
    pub class: String,
    /// The object.
    pub id: ObjectId,
    /// When the first alarm fires or is retried; if all were given up, the time one of them was set to.
    pub due: Timestamp,
    /// Attempts of that alarm begun so far.
    pub attempts: u32,
    /// An alarm was given up after its last retry.
    pub failed: bool,
    /// The last attempt of an alarm failed, or ended with its process, and it will be retried.
    pub failing: bool,
    /// An alarm has a name: [`Node::alarms_of`](crate::Node::alarms_of) reports each one.
    pub named: bool,
    /// Its position in the list.
    pub place: AlarmCursor,
}

impl AlarmListing {
    pub(crate) fn new(class: String, key: ObjectKey, entry: AlarmEntry, set_back: i64) -> Self {
        let due = entry.due_at(set_back);
        Self {
            class,
            id: ObjectId::from_bytes(key.id),
            due: Timestamp::from_unix_millis(due),
            attempts: u32::from(entry.attempts),
            failed: entry.failed || entry.some_failed,
            failing: entry.failing,
            named: entry.named,
            place: (due, key),
        }
    }
}

/// An alarm of an object, as [`Node::alarms_of`](crate::Node::alarms_of) reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlarmStatus {
    /// Its name; `None` for the object's unnamed alarm.
    pub name: Option<Arc<str>>,
    /// When it fires or is retried; if it was given up, the time it was set to.
    pub due: Timestamp,
    /// Attempts begun so far.
    pub attempts: u32,
    /// It was given up after its last retry.
    pub failed: bool,
    /// Its last attempt failed, or ended with its process, and it will be retried.
    pub failing: bool,
    /// The error of the last failed attempt.
    pub error: Option<String>,
    /// Attempts that were cut off by the end of the process. They do not count as retries.
    pub cut_off: u32,
    /// How often the process has ended while an attempt ran without another suspect.
    pub crashes: u32,
}

impl AlarmStatus {
    /// Builds the status from a row of the object's database; the unnamed alarm has the empty name. `set_back` is the
    /// sum of the wall clock's steps back ([`AlarmIndex::set_back`](abide_storage::AlarmIndex::set_back)).
    pub fn new(name: &str, row: AlarmRow, set_back: i64) -> Self {
        let entry = row.entry();
        Self {
            name: (!name.is_empty()).then(|| name.into()),
            due: Timestamp::from_unix_millis(entry.due_at(set_back)),
            attempts: row.attempts,
            failed: entry.failed,
            failing: entry.failing,
            error: row.error,
            cut_off: row.cut_off,
            crashes: row.crashes,
        }
    }

    /// Filters the alarms of an object that is listed in this state down to those that are in it, sorted by time; at
    /// most [`MAX_LISTED_ALARMS_OF_OBJECT`](crate::limits::MAX_LISTED_ALARMS_OF_OBJECT).
    pub fn listed(mut all: Vec<Self>, state: AlarmState) -> Vec<Self> {
        all.sort_by_key(|alarm| alarm.due);
        // An alarm that was firing when the process ended is listed as failing, although no attempt may have failed
        // yet.
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
