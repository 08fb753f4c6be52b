//! The scheduler of one worker: takes alarms of its objects from the store's index when they are due and rings them.
//!
//! A task on the worker's own thread. It asks the clock's wall time, sleeps until the earliest alarm, and looks again every
//! few seconds in case the wall clock was set. Each class has only so many alarms going off at a time on each worker; the
//! others stay in the index, in the order of their times, so alarms that are overdue at start spread over workers and time,
//! and handlers that hang hold up those of their own class and no others.

use std::{cell::Cell, rc::Rc, sync::Arc};

use abide_storage::{DueAlarm, Isolation};
use tokio::sync::Notify;

use super::bell::Bell;
use crate::{ObjectId, limits::MAX_ALARMS_PER_WORKER, namespace::Binding, router::Router};

/// What wakes the schedulers of a node, one for each worker: something is due earlier than was known, or there is room
/// again.
#[derive(Clone)]
pub(crate) struct Schedulers {
    bell: Bell,
    look_again: Arc<[Notify]>,
}

impl Schedulers {
    /// Divides the index among the workers.
    pub(crate) fn new(router: Arc<Router>, bindings: Arc<[Arc<Binding>]>) -> Self {
        let workers = router.workers.len();
        let look_again: Arc<[Notify]> = (0..workers).map(|_| Notify::new()).collect();
        let index = router.store.alarms();
        let earlier = Arc::downgrade(&look_again);
        index.subscribe(move |part| {
            if let Some(look_again) = earlier.upgrade() {
                look_again[part % workers].notify_one();
            }
        });
        let namespaces: Vec<_> = bindings.iter().map(|binding| binding.no).collect();
        let parts = namespaces.len() * workers;
        // A part is a class on a worker.
        index.divide(parts, move |key| {
            let class = namespaces.iter().position(|no| *no == key.namespace)?;
            Some(class * workers + ObjectId::from_bytes(key.id).worker(workers))
        });
        Self {
            bell: Bell { router, bindings },
            look_again,
        }
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Rings the objects of a worker until the node stops. Runs on the worker's thread.
    pub(crate) async fn run(self, worker: usize) {
        let classes = self.bell.bindings.len();
        let scheduler = Rc::new(Scheduler {
            all: self,
            worker,
            ringing: vec![Cell::new(0); classes].into(),
        });
        let mut stopped = scheduler.all.bell.router.stopped.subscribe();
        loop {
            scheduler.ring_due();
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => break,
                () = scheduler.until_next() => {}
                () = scheduler.look_again().notified() => {}
            }
        }
    }
}

struct Scheduler {
    all: Schedulers,
    worker: usize,
    /// Alarms that are going off, by class.
    ringing: Box<[Cell<usize>]>,
}

impl Scheduler {
    fn bell(&self) -> &Bell {
        &self.all.bell
    }

    fn look_again(&self) -> &Notify {
        &self.all.look_again[self.worker]
    }

    fn part(&self, class: usize) -> usize {
        class * self.bell().router.workers.len() + self.worker
    }

    fn has_room(&self, class: usize) -> bool {
        self.ringing[class].get() < MAX_ALARMS_PER_WORKER
    }

    /// The classes that have room for another alarm.
    fn with_room(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ringing.len()).filter(|class| self.has_room(*class))
    }

    /// Rings what is due, as far as there is room.
    fn ring_due(self: &Rc<Self>) {
        if !self.bell().can_begin() {
            return;
        }
        let now = self.bell().now();
        for class in self.with_room() {
            let part = self.part(class);
            while self.has_room(class)
                && let Some(due) = self.bell().index().take_due(part, now)
            {
                self.ring(class, due);
            }
        }
    }

    fn ring(self: &Rc<Self>, class: usize, due: DueAlarm) {
        self.ringing[class].update(|count| count + 1);
        let scheduler = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let leave = || scheduler.leave(class);
            let part = scheduler.part(class);
            let ringing = scheduler.bell().ring(part, due, Isolation::Free, leave);
            ringing.await;
            // It may have left before it was given back.
            scheduler.look_again().notify_one();
        });
    }

    fn leave(&self, class: usize) {
        self.ringing[class].update(|count| count - 1);
        self.look_again().notify_one();
    }

    /// Ends when the next alarm is due that there is room for, or when it is time to look at the clock again.
    async fn until_next(&self) {
        let index = self.bell().index();
        let next = self
            .with_room()
            .filter_map(|class| index.next_due(self.part(class)))
            .min();
        self.bell().until(next).await;
    }
}
