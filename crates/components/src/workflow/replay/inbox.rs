//! Unconsumed events and children's results, in memory.

use std::collections::{HashMap, VecDeque};

use crate::workflow::{StepKind, rows::EventRow};

/// Unconsumed entries, by kind and name, in order of arrival.
#[derive(Default)]
pub(super) struct Inbox {
    /// The newest that was seen.
    newest: i64,
    events: HashMap<(StepKind, String), VecDeque<Arrival>>,
}

/// An event or a child's result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) id: i64,
    pub(super) at: i64,
}

impl Inbox {
    pub(super) fn newest(&self) -> i64 {
        self.newest
    }

    pub(super) fn add(&mut self, event: EventRow) {
        self.newest = self.newest.max(event.id);
        let arrival = Arrival {
            id: event.id,
            at: event.at,
        };
        let queue = self.events.entry((event.kind, event.name)).or_default();
        queue.push_back(arrival);
    }

    /// The oldest of each name.
    pub(super) fn oldest(&self) -> impl Iterator<Item = (&(StepKind, String), Arrival)> {
        let front = |queue: &VecDeque<Arrival>| queue.front().copied();
        self.events
            .iter()
            .filter_map(move |(name, queue)| Some((name, front(queue)?)))
    }

    /// The oldest of a name was consumed.
    pub(super) fn take(&mut self, name: &(StepKind, String)) {
        if let Some(queue) = self.events.get_mut(name) {
            queue.pop_front();
            if queue.is_empty() {
                self.events.remove(name);
            }
        }
    }
}
