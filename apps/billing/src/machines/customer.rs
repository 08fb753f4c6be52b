//! Customers.

use abide::outcomes::Declaration;

use super::ABSENT;

/// Customers.
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
        "restore",
        "copy",
    ],
    outcomes: &[
        "restored",
        "copied",
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
        // The payment method for future bills.
        ("active", "set_payment_method", "set", "active"),
        // A customer with ongoing subscriptions cannot be deleted.
        ("active", "subscribe", "subscribed", "active"),
        ("active", "leave", "left", "active"),
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
    ],
};
