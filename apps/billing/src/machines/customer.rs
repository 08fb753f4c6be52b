//! Customers.

use abide::outcomes::Declaration;

use super::ABSENT;

/// Who pays.
pub const CUSTOMER: Declaration = Declaration {
    name: "customer",
    initial: ABSENT,
    states: &[ABSENT, "active", "deleted"],
    terminal: &["deleted"],
    actions: &[
        "create",
        "update",
        "set_payment_method",
        "subscribe",
        "leave",
        "delete",
        "annotate",
    ],
    outcomes: &[
        "created",
        "updated",
        "set",
        "subscribed",
        "left",
        "deleted",
        "annotated",
    ],
    transitions: &[
        (ABSENT, "create", "created", "active"),
        ("active", "update", "updated", "active"),
        // How the customer pays, for what is billed from now on.
        ("active", "set_payment_method", "set", "active"),
        // Who has subscriptions that go on is not deleted.
        ("active", "subscribe", "subscribed", "active"),
        ("active", "leave", "left", "active"),
        ("active", "delete", "deleted", "deleted"),
        // What somebody else wants to know of it.
        ("active", "annotate", "annotated", "active"),
        ("deleted", "annotate", "annotated", "deleted"),
    ],
};
