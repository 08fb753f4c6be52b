//! The event types, and the outcomes that cause them.

/// Every type of notice.
pub const TYPES: [&str; 50] = [
    "customer.created",
    "customer.deleted",
    "customer.restored",
    "customer.updated",
    "invoice.created",
    "invoice.credited",
    "invoice.finalized",
    "invoice.paid",
    "invoice.payment_action_required",
    "invoice.payment_failed",
    "invoice.restored",
    "invoice.uncollectible",
    "invoice.upcoming",
    "invoice.updated",
    "invoice.voided",
    "payment_intent.canceled",
    "payment_intent.created",
    "payment_intent.payment_failed",
    "payment_intent.refunded",
    "payment_intent.requires_action",
    "payment_intent.restored",
    "payment_intent.succeeded",
    "payment_intent.updated",
    "price.created",
    "price.deleted",
    "price.restored",
    "price.updated",
    "product.created",
    "product.deleted",
    "product.restored",
    "product.updated",
    "refund.created",
    "refund.failed",
    "refund.restored",
    "refund.succeeded",
    "refund.updated",
    "subscription.active",
    "subscription.canceled",
    "subscription.created",
    "subscription.credited",
    "subscription.incomplete",
    "subscription.incomplete_expired",
    "subscription.past_due",
    "subscription.paused",
    "subscription.restored",
    "subscription.resumed",
    "subscription.trial_will_end",
    "subscription.trialing",
    "subscription.unpaid",
    "subscription.updated",
];

/// The event for a future invoice, with the subscription that it belongs to.
const UPCOMING: &str = "invoice.upcoming";

/// The full event type: of the resource's kind, or of a future invoice.
pub(super) fn event(kind: &str, what: &str) -> String {
    if what == UPCOMING {
        return what.to_owned();
    }
    format!("{kind}.{what}")
}

/// The events of an outcome that led from one state to another: the part of the type after the kind.
pub(super) fn of<'a>(
    kind: &str,
    (action, outcome): (&str, &str),
    (from, to): (&str, &'a str),
) -> Vec<&'a str> {
    match (kind, action, outcome) {
        ("subscription", "create", "trialing") => vec!["created", "trialing"],
        (_, "create", _) => vec!["created"],
        // The original tells what happens to a copy, and a subscription what happens to its customer.
        (_, "copy", _) | (_, "restore", "found") | ("customer", "subscribe" | "leave", _) => {
            Vec::new()
        }
        (_, "restore", _) => vec!["restored"],
        ("subscription", "notify", "upcoming") => vec![UPCOMING],
        ("subscription", "notify", _) => vec!["trial_will_end"],
        ("subscription", "resume", "owing") => vec!["resumed", to],
        ("subscription", "resume", _) => vec!["resumed"],
        // Attempts and periods are reported by their invoices.
        ("subscription", ..) if from != to => vec![to],
        ("invoice", "finalize", "settled") => vec!["finalized", "paid"],
        ("invoice", "finalize", _) => vec!["finalized"],
        ("invoice", "pay", "paid")
        | ("payment_intent", "settle", "succeeded" | "requires_action")
        | ("payment_intent", "cancel", _)
        | ("refund", "settle", _) => vec![to],
        ("invoice", "pay", "failed")
        | ("payment_intent", "settle", "declined")
        | ("payment_intent", "authenticate", "failed" | "timed_out") => vec!["payment_failed"],
        ("invoice", "pay", "requires_action") => vec!["payment_action_required"],
        ("invoice", "credit", "settled") => vec!["credited", to],
        ("invoice", "credit", "noted") | ("subscription", "credit", _) => vec!["credited"],
        ("payment_intent", "refund", "refunded") => vec!["refunded"],
        ("invoice", "void", _) => vec!["voided"],
        ("invoice", "give_up", _) => vec!["uncollectible"],
        ("product" | "price" | "customer", "delete", _) => vec!["deleted"],
        (_, "annotate", _)
        | ("subscription", "change" | "cancel", _)
        | ("product" | "price" | "customer", ..) => vec!["updated"],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::machines;

    #[test]
    fn the_types_are_those_of_all_transitions_and_no_others() {
        let mut found = BTreeSet::new();
        for machine in machines::ALL {
            for (from, action, outcome, to) in machine.transitions {
                let told = of(machine.name, (action, outcome), (from, to));
                found.extend(told.iter().map(|what| event(machine.name, what)));
            }
        }
        assert!(TYPES.is_sorted());
        assert_eq!(found, TYPES.map(str::to_owned).into());
    }

    #[test]
    fn each_state_that_a_subscription_comes_to_is_told() {
        for (from, action, outcome, to) in machines::SUBSCRIPTION.transitions {
            let told = of("subscription", (action, outcome), (from, to));
            assert_eq!(
                told.is_empty(),
                *action == "copy"
                    || *outcome == "found"
                    || from == to
                        && !matches!(
                            *action,
                            "change" | "cancel" | "credit" | "annotate" | "notify" | "restore"
                        )
            );
        }
    }
}
