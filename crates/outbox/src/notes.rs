//! Counters and log warnings about a transaction.
//!
//! Contract: the events of a transaction are noted, and reported when it is durable. Events that are rolled back are
//! never reported, nor are those that the process does not survive.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use abide::ObjectId;

use super::{
    limits,
    metrics::{Board, Event},
};

/// An event to report.
#[derive(Clone, Debug)]
pub(super) struct Note {
    event: Event,
    destination: String,
    /// Its log line.
    warning: Option<Warning>,
}

#[derive(Clone, Debug)]
struct Warning {
    message: Option<i64>,
    error: String,
}

impl Note {
    pub(super) fn new(event: Event, destination: &str) -> Self {
        Self {
            event,
            destination: destination.to_owned(),
            warning: None,
        }
    }

    /// An operator should look at it.
    pub(super) fn warning(
        event: Event,
        destination: &str,
        message: Option<i64>,
        error: &str,
    ) -> Self {
        Self {
            warning: Some(Warning {
                message,
                error: error.to_owned(),
            }),
            ..Self::new(event, destination)
        }
    }
}

/// The events that are not reported yet.
#[derive(Debug, Default)]
pub(super) struct Notes {
    notes: RefCell<Vec<Note>>,
    /// Whether the outbox's contents differ from the shown metrics.
    changed: Cell<bool>,
}

impl Notes {
    pub(super) fn add(&self, note: Note) {
        self.notes.borrow_mut().push(note);
    }

    /// The outbox's contents have changed.
    pub(super) fn holding_changes(&self) {
        self.changed.set(true);
    }

    pub(super) fn holding_has_changed(&self) -> bool {
        self.changed.get()
    }

    pub(super) fn holding_is_shown(&self) {
        self.changed.set(false);
    }

    pub(super) fn len(&self) -> usize {
        self.notes.borrow().len()
    }

    /// Discards the notes of a failed function, whose transaction is rolled back.
    pub(super) fn unless_undone<T, E>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let before = self.len();
        let result = f();
        if result.is_err() {
            self.notes.borrow_mut().truncate(before);
        }
        result
    }

    /// Reports the first this many, which are durable.
    pub(super) fn tell(&self, count: usize, board: &Board, class: &str, outbox: ObjectId) {
        let notes: Vec<Note> = {
            let mut notes = self.notes.borrow_mut();
            let count = count.min(notes.len());
            notes.drain(..count).collect()
        };
        let mut sums: HashMap<(Event, &str), u64> = HashMap::new();
        let mut warned = 0;
        for note in &notes {
            *sums.entry((note.event, &note.destination)).or_default() += 1;
            let Some(Warning { message, error }) = &note.warning else {
                continue;
            };
            warned += 1;
            if warned > limits::MAX_WARNINGS {
                continue;
            }
            let destination = &note.destination;
            match message {
                Some(message) if note.event == Event::CallbackFailed => {
                    tracing::warn!(class, %outbox, message, destination, error, "the callback of a message that has ended failed: it is called again");
                }
                Some(message) if note.event == Event::CallbackGivenUp => {
                    tracing::error!(class, %outbox, message, destination, error, "the callback of a message that has ended failed for the last time: mend it, and repeat it by an operator request");
                }
                Some(message) => {
                    tracing::warn!(class, %outbox, message, destination, error, "a message of an outbox became a dead letter");
                }
                None => {
                    tracing::warn!(class, %outbox, destination, error, "a destination of an outbox keeps failing: its circuit opens");
                }
            }
        }
        if warned > limits::MAX_WARNINGS {
            let more = warned - limits::MAX_WARNINGS;
            tracing::warn!(class, %outbox, more, "more messages of an outbox became dead letters, callbacks failed, or circuits opened");
        }
        #[allow(
            clippy::iter_over_hash_type,
            reason = "sums do not depend on the order"
        )]
        for ((event, destination), messages) in sums {
            board.count(class, event, destination, messages);
        }
    }
}
