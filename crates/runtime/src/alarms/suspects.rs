//! Attempts that were running when an earlier process ended are begun again apart, so that one which ends its process is
//! told from those that only ran beside it.
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
//! All other alarms go off as always. The record of all this is in the rows and the log: it needs no state that could be
//! lost with the process.

use std::{cell::Cell, pin::pin, rc::Rc};

use abide_storage::{DueAlarm, Isolation};
use tokio::sync::Notify;

use super::{bell::Bell, scheduler::Schedulers};
use crate::limits::{ALARM_SUSPECT_PATIENCE, ALARM_SUSPECTS_TOGETHER};

/// Rings suspects until the node stops.
pub(crate) async fn ring_suspects(schedulers: Schedulers) {
    let suspects = Rc::new(Suspects {
        bell: schedulers.bell().clone(),
        look_again: Notify::new(),
        few: Cell::new(0),
        alone: Cell::new(0),
    });
    let index = suspects.bell.index();
    let found = index.counts().suspects;
    if found > 0 {
        tracing::warn!(
            found,
            "alarms were going off when an earlier process ended: they are run again apart from each other"
        );
    }
    let mut stopped = suspects.bell.router.stopped.subscribe();
    loop {
        suspects.ring_due();
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => break,
            () = suspects.bell.until(suspects.next()) => {}
            () = suspects.look_again.notified() => {}
        }
    }
}

struct Suspects {
    bell: Bell,
    /// One of them has ended, or has run for long.
    look_again: Notify,
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

    fn ring_due(self: &Rc<Self>) {
        while self.bell.can_begin() {
            let now = self.bell.now();
            let index = self.bell.index();
            let next = self
                .possible()
                .find_map(|isolation| Some((isolation, index.take_suspect(isolation, now)?)));
            let Some((isolation, (part, due))) = next else {
                break;
            };
            self.ring(part, due, isolation);
        }
    }

    fn ring(self: &Rc<Self>, part: usize, due: DueAlarm, isolation: Isolation) {
        let suspects = Rc::clone(self);
        let holding = suspects.holding(isolation);
        holding.update(|count| count + 1);
        tokio::task::spawn_local(async move {
            let holds = Cell::new(true);
            let leave = || {
                if holds.take() {
                    suspects.holding(isolation).update(|count| count - 1);
                    suspects.look_again.notify_one();
                }
            };
            let clock = &suspects.bell.router.clock;
            let patience = clock.sleep_until(clock.now() + ALARM_SUSPECT_PATIENCE);
            let mut ringing = pin!(suspects.bell.ring(part, due, isolation, leave));
            tokio::select! {
                biased;
                () = &mut ringing => {}
                () = patience => {
                    leave();
                    ringing.await;
                }
            }
            // If it could not be begun it is a suspect again.
            suspects.look_again.notify_one();
        });
    }

    fn holding(&self, isolation: Isolation) -> &Cell<usize> {
        match isolation {
            Isolation::Alone => &self.alone,
            Isolation::Few | Isolation::Free => &self.few,
        }
    }

    /// When the next that can begin is due.
    fn next(&self) -> Option<i64> {
        let index = self.bell.index();
        self.possible()
            .filter_map(|isolation| index.next_suspect(isolation))
            .min()
    }
}
