//! Refunds of payments.

use abide::outcomes::Declaration;

use super::ABSENT;

/// A refund of one payment.
pub const REFUND: Declaration = Declaration {
    name: "refund",
    initial: ABSENT,
    states: &[ABSENT, "pending", "succeeded", "failed"],
    terminal: &["succeeded", "failed"],
    actions: &["create", "submit", "settle", "annotate"],
    outcomes: &["created", "submitted", "succeeded", "failed", "annotated"],
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
    ],
};
