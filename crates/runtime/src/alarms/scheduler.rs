//! The scheduler of one worker: takes due alarms of its objects from the store's index and fires them.
//!
//! It is a task on the worker's own thread. It reads the wall clock, sleeps until the earliest alarm, and checks again
//! every few seconds in case the wall clock was set. Each class has a limited number of firing alarms on each worker;
//! the others stay in the index, ordered by time. Alarms that are overdue at start are therefore spread over workers
//! and time, and hanging handlers hold up only alarms of their own class.

use std::{cell::Cell, rc::Rc, sync::Arc};

use abide_storage::{DueAlarm, Isolation};
use tokio::sync::Notify;

use super::firer::AlarmFirer;
use crate::{ObjectId, binding::Binding, limits::MAX_ALARMS_PER_WORKER, router::Router};

/// Wakes the schedulers of a node, one for each worker: an alarm is due earlier than was known, or there is capacity
/// again.
#[derive(Clone)]
pub(crate) struct Schedulers {
    firer: AlarmFirer,
    recheck: Arc<[Notify]>,
    recheck_suspects: Arc<Notify>,
}

impl Schedulers {
    /// Divides the index among the workers.
    pub(crate) fn new(router: Arc<Router>, bindings: Arc<[Arc<Binding>]>) -> Self {
        let workers = router.workers.len();
        let recheck: Arc<[Notify]> = (0..workers).map(|_| Notify::new()).collect();
        let index = router.store.alarms();
        let recheck_suspects = Arc::new(Notify::new());
        let earlier = (Arc::downgrade(&recheck), Arc::downgrade(&recheck_suspects));
        index.subscribe(move |part, isolation| match isolation {
            Isolation::Free => {
                if let Some(recheck) = earlier.0.upgrade() {
                    recheck[part % workers].notify_one();
                }
            }
            // Another alarm of a suspect's object may be due before the suspect is.
            Isolation::Few | Isolation::Alone => {
                if let Some(recheck) = earlier.1.upgrade() {
                    recheck.notify_one();
                }
            }
        });
        let namespaces: Vec<_> = bindings.iter().map(|binding| binding.no).collect();
        let parts = namespaces.len() * workers;
        // A part is one class on one worker.
        let placement = Arc::clone(&router.placement);
        index.divide(parts, move |key| {
            let class = namespaces.iter().position(|no| *no == key.namespace)?;
            let worker = placement.worker_of(&ObjectId::from_bytes(key.id));
            Some(class * workers + worker)
        });
        Self {
            firer: AlarmFirer { router, bindings },
            recheck,
            recheck_suspects,
        }
    }

    pub(super) fn firer(&self) -> &AlarmFirer {
        &self.firer
    }

    /// Notified when a suspect's object is due earlier than was known.
    pub(super) fn recheck_suspects(&self) -> &Arc<Notify> {
        &self.recheck_suspects
    }

    /// Fires the alarms of a worker until the node stops. Runs on the worker's thread.
    pub(crate) async fn run(self, worker: usize) {
        let classes = self.firer.bindings.len();
        let scheduler = Rc::new(Scheduler {
            all: self,
            worker,
            firing: vec![Cell::new(0); classes].into(),
        });
        let mut stopped = scheduler.all.firer.router.stopped.subscribe();
        loop {
            scheduler.fire_due();
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => break,
                () = scheduler.until_next() => {}
                () = scheduler.recheck().notified() => {}
            }
        }
    }
}

struct Scheduler {
    all: Schedulers,
    worker: usize,
    /// Number of firing alarms, by class.
    firing: Box<[Cell<usize>]>,
}

impl Scheduler {
    fn firer(&self) -> &AlarmFirer {
        &self.all.firer
    }

    fn recheck(&self) -> &Notify {
        &self.all.recheck[self.worker]
    }

    fn part(&self, class: usize) -> usize {
        class * self.firer().router.workers.len() + self.worker
    }

    fn has_room(&self, class: usize) -> bool {
        self.firing[class].get() < MAX_ALARMS_PER_WORKER
    }

    /// The classes that can fire another alarm.
    fn with_room(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.firing.len()).filter(|class| self.has_room(*class))
    }

    /// Fires due alarms, up to the limits.
    fn fire_due(self: &Rc<Self>) {
        if !self.firer().can_begin() {
            return;
        }
        let now = self.firer().now();
        for class in self.with_room() {
            let part = self.part(class);
            while self.has_room(class)
                && let Some(due) = self.firer().index().take_due(part, now)
            {
                self.fire(class, due);
            }
        }
    }

    fn fire(self: &Rc<Self>, class: usize, due: DueAlarm) {
        self.firing[class].update(|count| count + 1);
        let scheduler = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let leave = || scheduler.leave(class);
            let part = scheduler.part(class);
            let firing = scheduler.firer().fire(part, due, Isolation::Free, leave);
            firing.await;
            // It may have freed its slot before it was returned to the index.
            scheduler.recheck().notify_one();
        });
    }

    fn leave(&self, class: usize) {
        self.firing[class].update(|count| count - 1);
        self.recheck().notify_one();
    }

    /// Completes when the next alarm is due whose class can fire it, or when it is time to check the clock again.
    async fn until_next(&self) {
        let index = self.firer().index();
        let next = self
            .with_room()
            .filter_map(|class| index.next_due(self.part(class)))
            .min();
        self.firer().until(next).await;
    }
}
