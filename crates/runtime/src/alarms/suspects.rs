//! Attempts that were running when an earlier process ended are retried in isolation, to distinguish the one that
//! crashes the process from those that merely ran at the same time.
//!
//! - An attempt that ran unrestricted at that moment is a suspect. At most [`ALARM_SUSPECTS_TOGETHER`] of them run at a
//!   time. Once an attempt ends, with whatever result, its alarm is an ordinary alarm again.
//! - If the process ends again, the suspects that were running together are run **alone**: with no other suspect at the
//!   same time. If the process ends with one of these, the crash is attributed to it
//!   ([`AlarmRow::crashes`](abide_storage::AlarmRow::crashes)).
//! - Each attempt that its process did not survive doubles the wait for the next, so an alarm that always crashes the
//!   process does so ever less often. It does not use up a retry: the cause may have been something else, and no alarm
//!   is given up for that.
//! - Suspects that may run with a few others go first, so all of them get their turn between two crashes; the others
//!   follow, ordered by time.
//! - A suspect that runs for longer than [`ALARM_SUSPECT_PATIENCE`] no longer holds up others.
//!
//! An object with a suspect alarm is a suspect as a whole: its other alarms fire at their times, isolated in the same
//! way. All other alarms fire as usual. All of this is recorded in the rows and the log: it needs no state that could
//! be lost with the process.

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
            "alarms were firing when an earlier process ended: running them again in isolation"
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
    /// The number of running suspects that hold others up.
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
            // If it could not begin, it is a suspect again.
            suspects.recheck.notify_one();
        });
    }

    fn holding(&self, isolation: Isolation) -> &Cell<usize> {
        match isolation {
            Isolation::Alone => &self.alone,
            Isolation::Few | Isolation::Free => &self.few,
        }
    }

    /// The due time of the next suspect that can begin.
    fn next(&self) -> Option<i64> {
        let index = self.firer.index();
        self.possible()
            .filter_map(|isolation| index.next_suspect(isolation))
            .min()
    }
}
