//! Refunds of payments.

use abide::outcomes::Declaration;

use super::ABSENT;

/// A refund of one payment.
pub const REFUND: Declaration = Declaration {
    name: "refund",
    initial: ABSENT,
    states: &[ABSENT, "pending", "succeeded", "failed", "copy"],
    terminal: &["copy"],
    actions: &["create", "submit", "settle", "annotate", "restore", "copy"],
    outcomes: &[
        "restored",
        "copied",
        "created",
        "submitted",
        "succeeded",
        "failed",
        "annotated",
    ],
    transitions: &[
        (ABSENT, "create", "created", "pending"),
        // The gateway has created it.
        ("pending", "submit", "submitted", "pending"),
        ("pending", "settle", "succeeded", "succeeded"),
        ("pending", "settle", "failed", "failed"),
        // Metadata.
        ("pending", "annotate", "annotated", "pending"),
        ("succeeded", "annotate", "annotated", "succeeded"),
        ("failed", "annotate", "annotated", "failed"),
        // A restore of the object, which leaves the state as it was then.
        ("pending", "restore", "restored", "pending"),
        ("succeeded", "restore", "restored", "succeeded"),
        ("failed", "restore", "restored", "failed"),
        ("copy", "restore", "restored", "copy"),
        // A copy of the object by a fork: it must not be charged or paid with.
        ("pending", "copy", "copied", "copy"),
        ("succeeded", "copy", "copied", "copy"),
        ("failed", "copy", "copied", "copy"),
        ("copy", "copy", "copied", "copy"),
    ],
};
