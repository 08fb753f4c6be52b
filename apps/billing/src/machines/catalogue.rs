//! Products, and prices of them.

use abide::outcomes::{Declaration, Transition};

use super::ABSENT;

const STATES: &[&str] = &[ABSENT, "active", "deleted"];
const LAST: &[&str] = &["deleted"];
const ACTIONS: &[&str] = &["create", "update", "delete", "annotate", "restore", "copy"];
const OUTCOMES: &[&str] = &[
    "created",
    "updated",
    "deleted",
    "annotated",
    "restored",
    "copied",
];
const TRANSITIONS: &[Transition] = &[
    (ABSENT, "create", "created", "active"),
    ("active", "update", "updated", "active"),
    ("active", "delete", "deleted", "deleted"),
    // Metadata.
    ("active", "annotate", "annotated", "active"),
    ("deleted", "annotate", "annotated", "deleted"),
    // A restore of the object, which leaves the state as it was then.
    ("active", "restore", "restored", "active"),
    ("deleted", "restore", "restored", "deleted"),
    // A copy of the object by a fork.
    ("active", "copy", "copied", "active"),
    ("deleted", "copy", "copied", "deleted"),
];

/// A product.
pub const PRODUCT: Declaration = Declaration {
    name: "product",
    initial: ABSENT,
    states: STATES,
    terminal: LAST,
    actions: ACTIONS,
    outcomes: OUTCOMES,
    transitions: TRANSITIONS,
};

/// The amount and the billing period of a product. They never change: a new price is created instead.
pub const PRICE: Declaration = Declaration {
    name: "price",
    initial: ABSENT,
    states: STATES,
    terminal: LAST,
    actions: ACTIONS,
    outcomes: OUTCOMES,
    transitions: TRANSITIONS,
};
