//! Fires an alarm: notifies its object, and returns the alarm to the index when its attempt has ended or could not
//! begin.

use std::{sync::Arc, time::Duration};

use abide_storage::{AlarmIndex, DueAlarm, Isolation};
use tokio::sync::oneshot;

use super::{AlarmRequest, Cause};
use crate::{
    Error, ErrorKind, ObjectId, Result,
    binding::Binding,
    clock::Sleep,
    envelope::Replier,
    limits::{ALARM_RECHECK, ALARM_TROUBLE_PAUSE, EVENT_BYTES},
    router::{Phase, Router},
};

/// The dependencies for firing an alarm.
#[derive(Clone)]
pub(super) struct AlarmFirer {
    pub(super) router: Arc<Router>,
    pub(super) bindings: Arc<[Arc<Binding>]>,
}

impl AlarmFirer {
    pub(super) fn index(&self) -> &AlarmIndex {
        self.router.store.alarms()
    }

    /// A stopping node begins nothing new: what is due now fires after the restart. A rehearsal begins nothing at all.
    pub(super) fn is_running(&self) -> bool {
        self.router.phase() == Phase::Running && !self.router.rehearsal
    }

    /// Returns whether an attempt can begin. It must be counted durably first, so alarms wait while the disk is full.
    pub(super) fn can_begin(&self) -> bool {
        self.is_running() && !self.router.store.no_space()
    }

    /// The wall clock, in milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.router.clock.unix_millis().cast_signed()
    }

    /// Fires an alarm of this part and completes when the alarm is back in the index. `leave` is called as soon as
    /// other alarms need not wait for this one.
    pub(super) async fn fire(
        &self,
        part: usize,
        due: DueAlarm,
        isolation: Isolation,
        leave: impl FnOnce(),
    ) {
        let mut leave = Some(leave);
        let outcome = self.answer(part, due, isolation).await;
        let not_begun = || self.index().get(due.key) == Some(due.entry);
        if let Err(error) = outcome
            && not_begun()
        {
            // The row is unchanged: retrying immediately would not help.
            tracing::warn!(
                id = %ObjectId::from_bytes(due.key.id), namespace = due.key.namespace.0, %error,
                "an alarm could not fire; it will be retried"
            );
            // This will not be fixed soon: other alarms may go first.
            if error.kind() == ErrorKind::Damaged
                && let Some(leave) = leave.take()
            {
                leave();
            }
            let until = self.router.clock.now() + ALARM_TROUBLE_PAUSE;
            self.router.clock.sleep_until(until).await;
        }
        // The current row determines when it is due again.
        self.index().finished(due.key);
        if let Some(leave) = leave {
            leave();
        }
    }

    async fn answer(&self, part: usize, due: DueAlarm, isolation: Isolation) -> Result<()> {
        let workers = self.router.workers.len();
        let binding = &self.bindings[part / workers];
        let mailbox = &self.router.workers[part % workers];
        let (answer, answered) = oneshot::channel();
        mailbox.send_alarm_request(AlarmRequest {
            binding: binding.index,
            id: ObjectId::from_bytes(due.key.id),
            cause: Cause::Due(Replier::new(answer, mailbox, EVENT_BYTES), isolation),
        });
        match answered.await {
            Ok(answer) => answer.into_inner().map(drop),
            Err(_) => Err(Error::with_kind(ErrorKind::Reset, "its worker has ended")),
        }
    }

    /// Completes when an alarm due at this time can begin, or when it is time to check the clock again; never without a
    /// time.
    pub(super) async fn until(&self, due: Option<i64>) {
        match due {
            Some(due) if self.can_begin() => self.sleep_until(due).await,
            Some(_) if self.is_running() => {
                let until = self.router.clock.now() + ALARM_TROUBLE_PAUSE;
                self.router.clock.sleep_until(until).await;
            }
            _ => std::future::pending().await,
        }
    }

    fn sleep_until(&self, due: i64) -> Sleep {
        let clock = &self.router.clock;
        // In this order: if the clock moves in between, the sleep is too short rather than too long.
        let now = clock.now();
        let wait = due.saturating_sub(self.now());
        let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
        clock.sleep_until(now + wait.min(ALARM_RECHECK))
    }
}
