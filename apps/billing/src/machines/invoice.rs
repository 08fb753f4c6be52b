//! Invoices.

use abide::outcomes::Declaration;

use super::ABSENT;

/// What is owed for a period.
pub const INVOICE: Declaration = Declaration {
    name: "invoice",
    initial: ABSENT,
    states: &[ABSENT, "draft", "open", "paid", "void", "uncollectible"],
    terminal: &["paid", "void"],
    actions: &[
        "create", "finalize", "void", "pay", "give_up", "credit", "annotate",
    ],
    outcomes: &[
        "drafted",
        "finalized",
        "settled",
        "voided",
        "attempted",
        "requires_action",
        "failed",
        "paid",
        "marked",
        "late",
        "noted",
        "withdrawn",
        "annotated",
    ],
    transitions: &[
        (ABSENT, "create", "drafted", "draft"),
        ("draft", "finalize", "finalized", "open"),
        // Nothing is due.
        ("draft", "finalize", "settled", "paid"),
        ("draft", "void", "voided", "void"),
        // A payment of it has begun, under the name of its payment intent.
        ("open", "pay", "attempted", "open"),
        ("open", "pay", "requires_action", "open"),
        ("open", "pay", "failed", "open"),
        ("open", "pay", "paid", "paid"),
        ("open", "void", "voided", "void"),
        ("open", "give_up", "marked", "uncollectible"),
        // Somebody pays after all.
        ("uncollectible", "pay", "attempted", "uncollectible"),
        ("uncollectible", "pay", "requires_action", "uncollectible"),
        ("uncollectible", "pay", "failed", "uncollectible"),
        ("uncollectible", "pay", "paid", "paid"),
        ("uncollectible", "void", "voided", "void"),
        // Money that comes though nothing is owed any more. It goes back.
        ("paid", "pay", "late", "paid"),
        ("void", "pay", "late", "void"),
        // Credit notes: less is owed, or nothing, or what was paid goes back, or does not.
        ("open", "credit", "noted", "open"),
        ("open", "credit", "settled", "paid"),
        ("uncollectible", "credit", "noted", "uncollectible"),
        ("uncollectible", "credit", "settled", "paid"),
        ("paid", "credit", "noted", "paid"),
        ("paid", "credit", "withdrawn", "paid"),
        // What somebody else wants to know of it.
        ("draft", "annotate", "annotated", "draft"),
        ("open", "annotate", "annotated", "open"),
        ("paid", "annotate", "annotated", "paid"),
        ("void", "annotate", "annotated", "void"),
        ("uncollectible", "annotate", "annotated", "uncollectible"),
    ],
};
