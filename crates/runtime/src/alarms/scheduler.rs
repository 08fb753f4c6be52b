//! The scheduler: takes alarms from the store's index when they are due and rings their objects.
//!
//! A thread of the node. It asks the clock's wall time, sleeps until the earliest alarm, and looks again every few seconds
//! in case the wall clock was set. Each class has only so many alarms going off at a time on each worker; the others stay in
//! the index, in the order of their times, so alarms that are overdue at start spread over workers and time, and handlers
//! that hang hold up those of their own class and no others.

use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

use abide_storage::{AlarmIndex, DueAlarm};
use tokio::sync::{Notify, oneshot};

use super::{Cause, Ring};
use crate::{
    Error, ErrorKind, ObjectId, Result,
    clock::Sleep,
    envelope::Replier,
    limits::{ALARM_RECHECK, ALARM_TROUBLE_PAUSE, MAX_ALARMS_PER_WORKER},
    namespace::Binding,
    router::{Phase, Router},
};

/// Rings objects until the node stops.
pub(crate) async fn schedule(router: Arc<Router>, bindings: Arc<[Arc<Binding>]>) {
    let scheduler = Rc::new(Scheduler::new(router, bindings));
    let mut stopped = scheduler.router.stopped.subscribe();
    loop {
        scheduler.ring_due();
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => break,
            () = scheduler.until_next() => {}
            () = scheduler.look_again.notified() => {}
        }
    }
}

struct Scheduler {
    router: Arc<Router>,
    bindings: Arc<[Arc<Binding>]>,
    /// Something is due earlier than was known, or a worker has room again.
    look_again: Arc<Notify>,
    /// Alarms that are going off, by part: there is one for each class on each worker.
    ringing: Box<[Cell<usize>]>,
}

impl Scheduler {
    fn new(router: Arc<Router>, bindings: Arc<[Arc<Binding>]>) -> Self {
        let look_again = Arc::new(Notify::new());
        let workers = router.workers.len();
        let index = router.store.alarms();
        let earlier = Arc::downgrade(&look_again);
        index.subscribe(move || {
            if let Some(look_again) = earlier.upgrade() {
                look_again.notify_one();
            }
        });
        let namespaces: Vec<_> = bindings.iter().map(|binding| binding.no).collect();
        let parts = namespaces.len() * workers;
        index.divide(parts, move |key| {
            let class = namespaces.iter().position(|no| *no == key.namespace)?;
            Some(class * workers + ObjectId::from_bytes(key.id).worker(workers))
        });
        Self {
            router,
            bindings,
            look_again,
            ringing: vec![Cell::new(0); parts].into(),
        }
    }

    fn index(&self) -> &AlarmIndex {
        self.router.store.alarms()
    }

    /// The parts that have room for another alarm.
    fn with_room(&self) -> impl Iterator<Item = usize> + '_ {
        let room = |part: &usize| self.ringing[*part].get() < MAX_ALARMS_PER_WORKER;
        (0..self.ringing.len()).filter(room)
    }

    /// A node that stops begins nothing new: what is due now is due when it is back.
    fn is_running(&self) -> bool {
        self.router.phase() == Phase::Running
    }

    /// Rings what is due, as far as there is room. An attempt must be counted first, so on a full disk alarms wait.
    fn ring_due(self: &Rc<Self>) {
        if !self.is_running() || self.router.store.no_space() {
            return;
        }
        let now = self.router.clock.unix_millis().cast_signed();
        for part in self.with_room() {
            while self.ringing[part].get() < MAX_ALARMS_PER_WORKER
                && let Some(due) = self.index().take_due(part, now)
            {
                self.ring(part, due);
            }
        }
    }

    fn ring(self: &Rc<Self>, part: usize, due: DueAlarm) {
        let workers = self.router.workers.len();
        let binding = &self.bindings[part / workers];
        let mailbox = &self.router.workers[part % workers];
        let (answer, answered) = oneshot::channel();
        mailbox.ring(Ring {
            binding: binding.index,
            id: ObjectId::from_bytes(due.key.id),
            cause: Cause::Due(Replier::new(answer, mailbox)),
        });
        self.ringing[part].update(|count| count + 1);
        let scheduler = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let outcome = match answered.await {
                Ok(answer) => answer.into_inner().map(drop),
                Err(_) => Err(Error::with_kind(ErrorKind::Reset, "its worker has ended")),
            };
            scheduler.finish(part, due, outcome).await;
        });
    }

    /// An alarm has gone off, or could not. What its row says by now decides when it is due again.
    async fn finish(&self, part: usize, due: DueAlarm, outcome: Result<()>) {
        let not_begun = || self.index().get(due.key) == Some(due.entry);
        let mut holds_room = true;
        if let Err(error) = outcome
            && not_begun()
        {
            // The row says what it said before: again and again at once would help nobody.
            tracing::warn!(
                id = %ObjectId::from_bytes(due.key.id), namespace = due.key.namespace.0, %error,
                "an alarm could not go off; it is tried again"
            );
            if error.kind() == ErrorKind::Damaged {
                // This one will not mend soon: others may go before it.
                holds_room = false;
                self.leave(part);
            }
            let until = self.router.clock.now() + ALARM_TROUBLE_PAUSE;
            self.router.clock.sleep_until(until).await;
        }
        self.index().finished(due.key);
        if holds_room {
            self.leave(part);
        } else {
            self.look_again.notify_one();
        }
    }

    fn leave(&self, part: usize) {
        self.ringing[part].update(|count| count - 1);
        self.look_again.notify_one();
    }

    /// Ends when the next alarm is due that there is room for, or when it is time to look at the clock again.
    async fn until_next(&self) {
        let next = self
            .with_room()
            .filter_map(|part| self.index().next_due(part))
            .min();
        match next {
            Some(due) if self.is_running() && !self.router.store.no_space() => {
                self.until(due).await;
            }
            Some(_) if self.is_running() => {
                let until = self.router.clock.now() + ALARM_TROUBLE_PAUSE;
                self.router.clock.sleep_until(until).await;
            }
            _ => std::future::pending().await,
        }
    }

    fn until(&self, due: i64) -> Sleep {
        let clock = &self.router.clock;
        // In this order: if the clock moves in between, the sleep is too short, not too long.
        let now = clock.now();
        let wait = due.saturating_sub(clock.unix_millis().cast_signed());
        let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
        clock.sleep_until(now + wait.min(ALARM_RECHECK))
    }
}
