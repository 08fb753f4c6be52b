//! The properties, one checker each. They read only a history, so they can be tested with hand-written ones.

mod acknowledged;
mod alarms;
mod alive;
mod keyed;
mod linear;
mod lists;
mod losses;
mod outbox;
mod released;
mod single;
mod slates;
mod sockets;
mod whole;

use std::borrow::Cow;

use crate::history::Event;

/// A guarantee, and its checker.
#[derive(Clone, Copy, Debug)]
pub struct Property {
    /// The guarantee.
    pub name: &'static str,
    check: fn(&[Event]) -> Result<(), String>,
}

/// What the loss of a machine leaves. Its checker reads all of a history; others leave out what may be lost.
const COPIES: &str = "a lost machine loses a suffix, and nothing that was copied";

/// All properties.
pub const PROPERTIES: &[Property] = &[
    Property {
        name: "acknowledged writes survive",
        check: acknowledged::check,
    },
    Property {
        name: "unacknowledged writes are whole or absent",
        check: whole::check,
    },
    Property {
        name: "nothing leaves an object before its writes are durable",
        check: released::check,
    },
    Property {
        name: "an object has one instance at a time",
        check: single::check,
    },
    Property {
        name: "alarms go off at least once and never before their time",
        check: alarms::check,
    },
    Property {
        name: "a socket's messages keep their order",
        check: sockets::check,
    },
    Property {
        name: "messages of an outbox are never lost, repeated without need or out of their keys' order",
        check: outbox::check,
    },
    Property {
        name: "a call with an idempotency key is applied once",
        check: keyed::check,
    },
    Property {
        name: "each object's history is linearizable",
        check: linear::check,
    },
    Property {
        name: "an erased object is gone until it is written again",
        check: slates::check,
    },
    Property {
        name: "the node starts, continues and answers",
        check: alive::check,
    },
    Property {
        name: COPIES,
        check: losses::check,
    },
];

/// A violated guarantee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The guarantee.
    pub property: &'static str,
    /// The violation.
    pub text: String,
}

impl Property {
    /// Checks a history for this property.
    pub fn check(&self, events: &[Event]) -> Result<(), Violation> {
        let kept = if self.name == COPIES {
            Cow::Borrowed(events)
        } else {
            losses::without_lost(events)
        };
        (self.check)(&kept).map_err(|text| Violation {
            property: self.name,
            text,
        })
    }
}

/// Checks a history for every property; returns the first violation.
pub fn check(events: &[Event]) -> Result<(), Violation> {
    PROPERTIES
        .iter()
        .try_for_each(|property| property.check(events))
}
