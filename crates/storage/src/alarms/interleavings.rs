//! A model of the alarm index: commits set alarms while a scheduler takes due ones.

use super::index::AlarmIndex;
use crate::alarm_entry::{AlarmChange, AlarmEntry};
use crate::ident::{Lsn, NamespaceNo, ObjectKey};
use crate::interleavings::{explore, spawn};
use crate::sync::{Condvar, Mutex};
use std::sync::Arc;

/// What the scheduler waits for. A notification that arrives before the wait is not lost.
#[derive(Default)]
struct Signal(Mutex<bool>, Condvar);

impl Signal {
    fn notify(&self) {
        *self.0.lock() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        let mut notified = self.0.lock();
        while !*notified {
            notified = self.1.wait(notified);
        }
        *notified = false;
    }
}

/// An object's row: when its alarm is due. As in a commit, the index is updated while the row is locked.
struct Row {
    key: ObjectKey,
    due: Mutex<Option<i64>>,
}

impl Row {
    fn set(&self, index: &AlarmIndex, due: i64) {
        let mut row = self.due.lock();
        *row = Some(due);
        let entry = AlarmEntry::at(due);
        index.apply(self.key, AlarmChange::Set(entry), Lsn(1));
    }

    /// Fires the alarm if it is still due at that time. Returns whether it did.
    fn fire(&self, index: &AlarmIndex, due: i64) -> bool {
        let mut row = self.due.lock();
        let fires = *row == Some(due);
        if fires {
            *row = None;
            index.apply(self.key, AlarmChange::Cleared, Lsn(2));
        }
        drop(row);
        index.finished(self.key);
        fires
    }
}

#[test]
fn an_alarm_that_is_set_while_it_goes_off_goes_off_again() {
    explore(2_000, || {
        let index = Arc::new(AlarmIndex::default());
        let signal = Arc::new(Signal::default());
        let ear = signal.clone();
        index.subscribe(move |_, _| ear.notify());
        index.divide(1, |_| Some(0));
        let rows = [1, 2].map(|id| {
            let key = ObjectKey {
                namespace: NamespaceNo(1),
                id: [id; 32],
            };
            Arc::new(Row {
                key,
                due: Mutex::default(),
            })
        });
        let committers = rows.clone().map(|row| {
            let index = index.clone();
            spawn(move || {
                for due in [30, 10, 20] {
                    row.set(&index, due);
                }
            })
        });
        let scheduler = {
            let (index, rows) = (index.clone(), rows.clone());
            spawn(move || {
                let mut last_fired = 0;
                // The last alarm of each object must fire, whatever fired before it.
                while last_fired < rows.len() {
                    while let Some(due) = index.take_due(0, 100) {
                        let row = rows.iter().find(|row| row.key == due.key).unwrap();
                        let fired = row.fire(&index, due.entry.due);
                        last_fired += usize::from(fired && due.entry.due == 20);
                    }
                    if last_fired < rows.len() {
                        signal.wait();
                    }
                }
            })
        };
        for committer in committers {
            committer.join().unwrap();
        }
        scheduler.join().unwrap();
        let counts = index.counts();
        assert_eq!((counts.pending, counts.in_flight), (0, 0));
    });
}
