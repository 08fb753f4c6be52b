//! The options of a class.

use std::time::Duration;

use abide_macros::Setters;

use crate::{AlarmRetry, limits};

/// How objects of a class are run.
#[derive(Clone, Debug, Setters)]
#[non_exhaustive]
pub struct ClassOptions {
    /// The name under which callers find the class, in [`Env::namespace`](crate::Env::namespace) and in URLs such as `/rpc/NAME/…`; the class name if
    /// `None`. It has letters, digits, `_` and `-`.
    #[setters(into)]
    pub binding: Option<String>,
    /// The key that ids are derived from; the class name if `None`. Set it and `binding` to the old name before you rename the
    /// class, because objects and callers find it by them. Two bindings must not share one.
    #[setters(into)]
    pub unique_key: Option<String>,
    /// An object with nothing running or waiting is evicted after this time.
    pub idle_timeout: Duration,
    /// An object that was activated by its alarm, and has not been called since, is evicted after this time if it is
    /// shorter. Default 1 s.
    pub alarm_idle_timeout: Duration,
    /// A handler that has not finished after this time is stopped at its current `await`, and its object is reset. Code that
    /// does not reach an `await` cannot be stopped.
    pub event_timeout: Duration,
    /// Background work that has not ended after this time is dropped; the object continues to run.
    pub background_timeout: Duration,
    /// Events that may wait at one object's closed gate; at least 1.
    pub max_queued: usize,
    /// Handlers of one object that may be suspended at an `await` at the same time; at least 1.
    pub max_running: usize,
    /// How often and when a failed alarm is tried again.
    pub alarm_retry: AlarmRetry,
}

impl Default for ClassOptions {
    fn default() -> Self {
        Self {
            binding: None,
            unique_key: None,
            idle_timeout: limits::IDLE_TIMEOUT,
            alarm_idle_timeout: limits::ALARM_IDLE_TIMEOUT,
            event_timeout: limits::EVENT_TIMEOUT,
            background_timeout: limits::BACKGROUND_TIMEOUT,
            max_queued: limits::MAX_QUEUED_PER_OBJECT,
            max_running: limits::MAX_RUNNING_PER_OBJECT,
            alarm_retry: AlarmRetry::default(),
        }
    }
}

impl ClassOptions {
    /// The default options with this unique key.
    pub fn with_unique_key(unique_key: impl Into<String>) -> Self {
        Self {
            unique_key: Some(unique_key.into()),
            ..Self::default()
        }
    }
}
