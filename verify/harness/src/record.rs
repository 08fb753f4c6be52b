//! The record of a fake, and waiting for entries.

use std::{collections::VecDeque, sync::Mutex};

use tokio::sync::watch;

use crate::PATIENCE;

/// Entries in order of arrival.
#[derive(Debug)]
pub(crate) struct Record<T> {
    seen: Mutex<Vec<T>>,
    changes: watch::Sender<()>,
}

impl<T> Default for Record<T> {
    fn default() -> Self {
        Self {
            seen: Mutex::default(),
            changes: watch::channel(()).0,
        }
    }
}

impl<T: Clone> Record<T> {
    /// All entries so far.
    pub(crate) fn all(&self) -> Vec<T> {
        self.change_quietly(|seen| seen.clone())
    }

    /// Changes the record, and notifies waiters.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Vec<T>) -> R) -> R {
        let result = self.change_quietly(change);
        self.changes.send_replace(());
        result
    }

    /// Waits until this many matching entries have arrived, and returns those.
    pub(crate) async fn wait_for(&self, count: usize, is_one: impl Fn(&T) -> bool) -> Vec<T> {
        let mut changes = self.changes.subscribe();
        let found = || {
            self.change_quietly(|seen| {
                let found = seen.iter().filter(|one| is_one(one));
                found.cloned().collect::<Vec<_>>()
            })
        };
        let waits = async {
            loop {
                let found = found();
                if found.len() >= count {
                    return found;
                }
                changes
                    .changed()
                    .await
                    .expect("this record keeps its sender");
            }
        };
        tokio::time::timeout(PATIENCE, waits)
            .await
            .unwrap_or_else(|_| panic!("waited for {count}, and {} came", found().len()))
    }

    fn change_quietly<R>(&self, change: impl FnOnce(&mut Vec<T>) -> R) -> R {
        change(&mut self.seen.lock().expect("no panics under this lock"))
    }
}

/// A script for a fake: the scripted actions in order, followed by a default.
#[derive(Debug)]
pub(crate) struct Script<T>(Mutex<(VecDeque<T>, T)>);

impl<T: Clone> Script<T> {
    /// Only the default.
    pub(crate) fn always(act: T) -> Self {
        Self(Mutex::new((VecDeque::new(), act)))
    }

    /// Appends actions.
    pub(crate) fn append(&self, acts: impl IntoIterator<Item = T>) {
        self.locked(|(script, _)| script.extend(acts));
    }

    /// Drops the rest of the script, and sets the default.
    pub(crate) fn replace(&self, act: T) {
        self.locked(|script| *script = (VecDeque::new(), act));
    }

    /// The next action.
    pub(crate) fn next(&self) -> T {
        self.locked(|(acts, then)| acts.pop_front().unwrap_or_else(|| then.clone()))
    }

    fn locked<R>(&self, with: impl FnOnce(&mut (VecDeque<T>, T)) -> R) -> R {
        with(&mut self.0.lock().expect("no panics under this lock"))
    }
}
