//! Invoices.

use abide::outcomes::Declaration;

use super::ABSENT;

/// An invoice for a period.
pub const INVOICE: Declaration = Declaration {
    name: "invoice",
    initial: ABSENT,
    states: &[
        ABSENT,
        "draft",
        "open",
        "paid",
        "void",
        "uncollectible",
        "copy",
    ],
    terminal: &["copy"],
    actions: &[
        "create", "finalize", "void", "pay", "give_up", "credit", "annotate", "restore", "copy",
    ],
    outcomes: &[
        "restored",
        "copied",
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
        // A payment of it has begun, identified by its payment intent.
        ("open", "pay", "attempted", "open"),
        ("open", "pay", "requires_action", "open"),
        ("open", "pay", "failed", "open"),
        ("open", "pay", "paid", "paid"),
        ("open", "void", "voided", "void"),
        ("open", "give_up", "marked", "uncollectible"),
        // The customer pays after all.
        ("uncollectible", "pay", "attempted", "uncollectible"),
        ("uncollectible", "pay", "requires_action", "uncollectible"),
        ("uncollectible", "pay", "failed", "uncollectible"),
        ("uncollectible", "pay", "paid", "paid"),
        ("uncollectible", "void", "voided", "void"),
        // A payment that arrives although nothing is owed any more. It is refunded.
        ("paid", "pay", "late", "paid"),
        ("void", "pay", "late", "void"),
        // Credit notes: less is owed, or nothing, or a payment is refunded, or the refund fails.
        ("open", "credit", "noted", "open"),
        ("open", "credit", "settled", "paid"),
        ("uncollectible", "credit", "noted", "uncollectible"),
        ("uncollectible", "credit", "settled", "paid"),
        ("paid", "credit", "noted", "paid"),
        ("paid", "credit", "withdrawn", "paid"),
        // Metadata.
        ("draft", "annotate", "annotated", "draft"),
        ("open", "annotate", "annotated", "open"),
        ("paid", "annotate", "annotated", "paid"),
        ("void", "annotate", "annotated", "void"),
        ("uncollectible", "annotate", "annotated", "uncollectible"),
        // A restore of the object, which leaves the state as it was then.
        ("draft", "restore", "restored", "draft"),
        ("open", "restore", "restored", "open"),
        ("paid", "restore", "restored", "paid"),
        ("void", "restore", "restored", "void"),
        ("uncollectible", "restore", "restored", "uncollectible"),
        ("copy", "restore", "restored", "copy"),
        // A copy of the object by a fork: it must not be charged or paid with.
        ("draft", "copy", "copied", "copy"),
        ("open", "copy", "copied", "copy"),
        ("paid", "copy", "copied", "copy"),
        ("void", "copy", "copied", "copy"),
        ("uncollectible", "copy", "copied", "copy"),
        ("copy", "copy", "copied", "copy"),
    ],
};
