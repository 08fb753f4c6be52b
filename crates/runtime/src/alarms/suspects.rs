//! Attempts that ran when an earlier process ended are retried in isolation, to tell the one that ends its process from those
//! that only ran beside it.
//!
//! - What ran freely at that moment is a suspect. At most [`ALARM_SUSPECTS_TOGETHER`] of them run at a time; an attempt that
//!   ends, however it does, makes its alarm an alarm as any other.
//! - If the process ends again, those that ran beside a few are run **alone**: no other suspect beside them. If it ends with
//!   one of these, that is put down to it ([`AlarmRow::crashes`](abide_storage::AlarmRow::crashes)).
//! - Each attempt that its process did not survive doubles the wait for the next, so what ends the process whenever it runs
//!   does so ever more rarely. It uses up no retry: the cause may have been another, and no alarm is given up for that.
//! - Those that may run beside a few go first, so between two ends of the process they all get their turn; after them
//!   the others, in the order of their times.
//! - A suspect that runs for longer than [`ALARM_SUSPECT_PATIENCE`] holds up no others.
//!
//! An object with a suspect alarm is a suspect as a whole: its other alarms go off at their times, isolated in the same way.
//! All other alarms go off as always. The record of all this is in the rows and the log: it needs no state that could be
//! lost with the process.

use std::{cell::Cell, pin::pin, rc::Rc, sync::Arc};

use abide_storage::{DueAlarm, Isolation};
use tokio::sync::Notify;

use super::{firer::AlarmFirer, scheduler::Schedulers};
use crate::limits::{ALARM_SUSPECT_PATIENCE, ALARM_SUSPECTS_TOGETHER};

/// Fires suspects until the node stops.
pub(crate) async fn fire_suspects(schedulers: Schedulers) {
    let suspects = Rc::new(Suspects {
        firer: schedulers.firer().clone(),
        recheck: Arc::clone(schedulers.recheck_suspects()),
        few: Cell::new(0),
        alone: Cell::new(0),
    });
    let index = suspects.firer.index();
    let found = index.counts().suspects;
    if found > 0 {
        tracing::warn!(
            found,
            "alarms were going off when an earlier process ended: they are run again apart from each other"
        );
    }
    let mut stopped = suspects.firer.router.stopped.subscribe();
    loop {
        suspects.fire_due();
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => break,
            () = suspects.firer.until(suspects.next()) => {}
            () = suspects.recheck.notified() => {}
        }
    }
}

struct Suspects {
    firer: AlarmFirer,
    /// One of them has ended, has exceeded its patience, or is due earlier.
    recheck: Arc<Notify>,
    /// How many run that others are kept from for their sake.
    few: Cell<usize>,
    alone: Cell<usize>,
}

impl Suspects {
    /// The isolations with which another can begin now.
    fn possible(&self) -> impl Iterator<Item = Isolation> + '_ {
        let few = self.alone.get() == 0 && self.few.get() < ALARM_SUSPECTS_TOGETHER;
        let alone = self.alone.get() == 0 && self.few.get() == 0;
        let few = few.then_some(Isolation::Few);
        few.into_iter().chain(alone.then_some(Isolation::Alone))
    }

    fn fire_due(self: &Rc<Self>) {
        while self.firer.can_begin() {
            let now = self.firer.now();
            let index = self.firer.index();
            let next = self
                .possible()
                .find_map(|isolation| Some((isolation, index.take_suspect(isolation, now)?)));
            let Some((isolation, (part, due))) = next else {
                break;
            };
            self.fire(part, due, isolation);
        }
    }

    fn fire(self: &Rc<Self>, part: usize, due: DueAlarm, isolation: Isolation) {
        let suspects = Rc::clone(self);
        let holding = suspects.holding(isolation);
        holding.update(|count| count + 1);
        tokio::task::spawn_local(async move {
            let holds = Cell::new(true);
            let leave = || {
                if holds.take() {
                    suspects.holding(isolation).update(|count| count - 1);
                    suspects.recheck.notify_one();
                }
            };
            let clock = &suspects.firer.router.clock;
            let patience = clock.sleep_until(clock.now() + ALARM_SUSPECT_PATIENCE);
            let mut firing = pin!(suspects.firer.fire(part, due, isolation, leave));
            tokio::select! {
                biased;
                () = &mut firing => {}
                () = patience => {
                    leave();
                    firing.await;
                }
            }
            // If it could not be begun it is a suspect again.
            suspects.recheck.notify_one();
        });
    }

    fn holding(&self, isolation: Isolation) -> &Cell<usize> {
        match isolation {
            Isolation::Alone => &self.alone,
            Isolation::Few | Isolation::Free => &self.few,
        }
    }

    /// When the next suspect that can begin is due.
    fn next(&self) -> Option<i64> {
        let index = self.firer.index();
        self.possible()
            .filter_map(|isolation| index.next_suspect(isolation))
            .min()
    }
}
