//! Payments of an invoice.

use abide::outcomes::Declaration;

use super::ABSENT;

/// One payment, from the request for a card to the result. After a decline it waits for another card.
pub const PAYMENT_INTENT: Declaration = Declaration {
    name: "payment_intent",
    initial: ABSENT,
    states: &[
        ABSENT,
        "requires_payment_method",
        "requires_confirmation",
        "requires_action",
        "processing",
        "succeeded",
        "canceled",
        "copy",
    ],
    terminal: &["copy"],
    actions: &[
        "create",
        "attach",
        "cancel",
        "confirm",
        "settle",
        "authenticate",
        "refund",
        "annotate",
        "restore",
        "copy",
    ],
    outcomes: &[
        "restored",
        "copied",
        "created",
        "attached",
        "canceled",
        "submitted",
        "succeeded",
        "requires_action",
        "declined",
        "authenticated",
        "failed",
        "timed_out",
        "requested",
        "refunded",
        "annotated",
    ],
    transitions: &[
        (ABSENT, "create", "created", "requires_payment_method"),
        (
            "requires_payment_method",
            "attach",
            "attached",
            "requires_confirmation",
        ),
        ("requires_payment_method", "cancel", "canceled", "canceled"),
        (
            "requires_confirmation",
            "attach",
            "attached",
            "requires_confirmation",
        ),
        (
            "requires_confirmation",
            "confirm",
            "submitted",
            "processing",
        ),
        ("requires_confirmation", "cancel", "canceled", "canceled"),
        // The gateway's result. Until there is one, money may be in transit: nothing can be canceled.
        ("processing", "settle", "succeeded", "succeeded"),
        ("processing", "settle", "requires_action", "requires_action"),
        (
            "processing",
            "settle",
            "declined",
            "requires_payment_method",
        ),
        // 3-D Secure: the customer authenticates, or fails, or never returns.
        (
            "requires_action",
            "authenticate",
            "authenticated",
            "processing",
        ),
        (
            "requires_action",
            "authenticate",
            "failed",
            "requires_payment_method",
        ),
        (
            "requires_action",
            "authenticate",
            "timed_out",
            "requires_payment_method",
        ),
        ("requires_action", "cancel", "canceled", "canceled"),
        // Refunds, in parts or in full. A requested amount cannot be requested again unless its refund fails.
        ("succeeded", "refund", "requested", "succeeded"),
        ("succeeded", "refund", "refunded", "succeeded"),
        ("succeeded", "refund", "failed", "succeeded"),
        // Metadata.
        (
            "requires_payment_method",
            "annotate",
            "annotated",
            "requires_payment_method",
        ),
        (
            "requires_confirmation",
            "annotate",
            "annotated",
            "requires_confirmation",
        ),
        (
            "requires_action",
            "annotate",
            "annotated",
            "requires_action",
        ),
        ("processing", "annotate", "annotated", "processing"),
        ("succeeded", "annotate", "annotated", "succeeded"),
        ("canceled", "annotate", "annotated", "canceled"),
        // A restore of the object, which leaves the state as it was then.
        (
            "requires_payment_method",
            "restore",
            "restored",
            "requires_payment_method",
        ),
        (
            "requires_confirmation",
            "restore",
            "restored",
            "requires_confirmation",
        ),
        ("requires_action", "restore", "restored", "requires_action"),
        ("processing", "restore", "restored", "processing"),
        ("succeeded", "restore", "restored", "succeeded"),
        ("canceled", "restore", "restored", "canceled"),
        ("copy", "restore", "restored", "copy"),
        // A copy of the object by a fork: it must not be charged or paid with.
        ("requires_payment_method", "copy", "copied", "copy"),
        ("requires_confirmation", "copy", "copied", "copy"),
        ("requires_action", "copy", "copied", "copy"),
        ("processing", "copy", "copied", "copy"),
        ("succeeded", "copy", "copied", "copy"),
        ("canceled", "copy", "copied", "copy"),
        ("copy", "copy", "copied", "copy"),
    ],
};
