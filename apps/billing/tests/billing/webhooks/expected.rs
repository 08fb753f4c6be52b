//! What is to be told, from the chains.

use billing::resource::Event;

/// What is told of a chain, in order: the ids.
pub(crate) fn of_chain(id: &str, kind: &str, chain: &[Event]) -> Vec<String> {
    let mut ids = Vec::new();
    let mut from = "absent";
    for event in chain {
        let entry = &event.entry;
        let what = of_outcome(kind, &entry.action, &entry.outcome, from, &event.state);
        ids.extend(what.iter().map(|what| format!("{id}.{}.{what}", entry.seq)));
        from = &event.state;
    }
    ids
}

fn of_outcome(kind: &str, action: &str, outcome: &str, from: &str, to: &str) -> Vec<String> {
    let fixed: &[&str] = match (kind, action, outcome) {
        ("subscription", "create", "trialing") => &["created", "trialing"],
        (_, "create", _) => &["created"],
        ("subscription", "notify", "trial_will_end") => &["trial_will_end"],
        ("subscription", "notify", "upcoming") => &["invoice.upcoming"],
        (_, "annotate", _)
        | ("customer", "set_payment_method", _)
        | ("subscription", "cancel", "scheduled" | "unscheduled")
        | ("subscription", "change", "changed") => &["updated"],
        ("subscription", "resume", "resumed") => &["resumed"],
        ("subscription", "resume", "owing") => &["resumed", "past_due"],
        ("subscription", ..) if from != to => return vec![to.to_owned()],
        ("product" | "price" | "customer", "delete", _) => &["deleted"],
        ("invoice", "finalize", "finalized") => &["finalized"],
        ("invoice", "finalize", "settled") => &["finalized", "paid"],
        ("invoice", "pay", "paid") => &["paid"],
        ("invoice", "pay", "requires_action") => &["payment_action_required"],
        ("invoice", "credit", "settled") => &["credited", "paid"],
        ("invoice", "credit", "noted")
        | ("subscription", "credit", "reduced" | "granted" | "returned") => &["credited"],
        ("payment_intent", "refund", "refunded") => &["refunded"],
        ("refund", "settle", "failed") => &["failed"],
        ("invoice", "void", "voided") => &["voided"],
        ("invoice", "give_up", "marked") => &["uncollectible"],
        ("payment_intent" | "refund", "settle", "succeeded") => &["succeeded"],
        ("payment_intent", "settle", "requires_action") => &["requires_action"],
        ("payment_intent", "cancel", "canceled") => &["canceled"],
        ("invoice", "pay", "failed")
        | ("payment_intent", "settle", "declined")
        | ("payment_intent", "authenticate", "failed" | "timed_out") => &["payment_failed"],
        _ => &[],
    };
    fixed.iter().copied().map(str::to_owned).collect()
}
