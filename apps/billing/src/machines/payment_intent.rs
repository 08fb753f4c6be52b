//! Payments of an invoice.

use abide::outcomes::Declaration;

use super::ABSENT;

/// One payment, from asking for a card to the money. What a gateway declines asks for another card.
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
    ],
    terminal: &["succeeded", "canceled"],
    actions: &[
        "create",
        "attach",
        "cancel",
        "confirm",
        "settle",
        "authenticate",
        "refund",
        "annotate",
    ],
    outcomes: &[
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
        // What the gateway says. Until it has said something, the money may be on its way: nothing is canceled.
        ("processing", "settle", "succeeded", "succeeded"),
        ("processing", "settle", "requires_action", "requires_action"),
        (
            "processing",
            "settle",
            "declined",
            "requires_payment_method",
        ),
        // 3-D Secure: the customer proves to be who they are, or not, or never comes back.
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
        // What was paid goes back, in parts or whole. What is requested is not to be had again unless it fails.
        ("succeeded", "refund", "requested", "succeeded"),
        ("succeeded", "refund", "refunded", "succeeded"),
        ("succeeded", "refund", "failed", "succeeded"),
        // What somebody else wants to know of it.
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
    ],
};
