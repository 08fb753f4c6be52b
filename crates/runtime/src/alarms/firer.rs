//! Fires an alarm: its object is told that it is due, and the alarm is given back to the index when its attempt has ended,
//! or could not begin.

use std::{sync::Arc, time::Duration};

use abide_storage::{AlarmIndex, DueAlarm, Isolation};
use tokio::sync::oneshot;

use super::{AlarmRequest, Cause};
use crate::{
    Error, ErrorKind, ObjectId, Result,
    clock::Sleep,
    envelope::Replier,
    limits::{ALARM_RECHECK, ALARM_TROUBLE_PAUSE, EVENT_BYTES},
    namespace::Binding,
    router::{Phase, Router},
};

/// What firing an alarm needs.
#[derive(Clone)]
pub(super) struct AlarmFirer {
    pub(super) router: Arc<Router>,
    pub(super) bindings: Arc<[Arc<Binding>]>,
}

impl AlarmFirer {
    pub(super) fn index(&self) -> &AlarmIndex {
        self.router.store.alarms()
    }

    /// A node that stops begins nothing new: what is due now is due when it is back. A rehearsal begins nothing at all.
    pub(super) fn is_running(&self) -> bool {
        self.router.phase() == Phase::Running && !self.router.rehearsal
    }

    /// True if an attempt can begin: it must be counted first, so on a full disk alarms wait.
    pub(super) fn can_begin(&self) -> bool {
        self.is_running() && !self.router.store.no_space()
    }

    /// The wall clock, in milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.router.clock.unix_millis().cast_signed()
    }

    /// Fires an alarm of this part and ends when the alarm is the index's again. `leave` is called as soon as others need
    /// not wait for this one.
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
            // The row says what it said before: again and again at once would help nobody.
            tracing::warn!(
                id = %ObjectId::from_bytes(due.key.id), namespace = due.key.namespace.0, %error,
                "an alarm could not go off; it is tried again"
            );
            // This one will not mend soon: others may go before it.
            if error.kind() == ErrorKind::Damaged
                && let Some(leave) = leave.take()
            {
                leave();
            }
            let until = self.router.clock.now() + ALARM_TROUBLE_PAUSE;
            self.router.clock.sleep_until(until).await;
        }
        // What its row says by now decides when it is due again.
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

    /// Ends when something of this time can begin, or when it is time to look at the clock again; never without a time.
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
        // In this order: if the clock moves in between, the sleep is too short, not too long.
        let now = clock.now();
        let wait = due.saturating_sub(self.now());
        let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
        clock.sleep_until(now + wait.min(ALARM_RECHECK))
    }
}
