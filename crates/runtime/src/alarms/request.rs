//! Requests to a worker about an object's alarms.

use std::sync::Arc;

use abide_storage::Isolation;
use tokio::sync::oneshot;

use super::{AlarmInfo, AlarmStatus};
use crate::{
    Error, ObjectId,
    envelope::{Replier, Ticket},
};

/// A request to a worker about an object's alarm, handled in a turn that runs none of the object's code.
pub(crate) struct AlarmRequest {
    pub(crate) binding: usize,
    pub(crate) id: ObjectId,
    pub(crate) cause: Cause,
}

pub(crate) enum Cause {
    /// The alarm is due: begin an attempt with this isolation. Answered when the attempt has ended, or was not needed.
    Due(Replier, Isolation),
    /// The incarnation that ran this attempt has ended.
    Broken {
        attempt: AlarmInfo,
        error: Error,
        _ticket: Ticket,
    },
    /// Run an alarm again that was given up or is failing; without a name, all such alarms.
    Rerun(Replier, Option<Arc<str>>),
    /// Report all alarms.
    Describe(Replier, oneshot::Sender<Vec<AlarmStatus>>),
}
