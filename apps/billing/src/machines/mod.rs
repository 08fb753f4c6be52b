//! The state machines of the resources.
//!
//! Contract: a machine is a table of transitions `(state, action, outcome, next state)` and nothing else: what was
//! attempted, the result, and the next state. A pair of action and outcome without a row for the current state is
//! rejected. Every resource begins as [`ABSENT`], so creating it twice is rejected like any other impossible
//! transition.
//!
//! The tables contain neither amounts nor times; who may attempt what, and when, is decided by the resources.

mod catalogue;
mod customer;
mod invoice;
mod payment_intent;
mod refund;
mod subscription;

use abide::outcomes::Declaration;

pub use catalogue::{PRICE, PRODUCT};
pub use customer::CUSTOMER;
pub use invoice::INVOICE;
pub use payment_intent::PAYMENT_INTENT;
pub use refund::REFUND;
pub use subscription::SUBSCRIPTION;

/// The state of a resource that has not been created.
pub const ABSENT: &str = "absent";

/// The state of a copy that a fork made of a resource which money depends on. It is never left.
pub const COPY: &str = "copy";

/// All machines.
pub const ALL: [Declaration; 7] = [
    PRODUCT,
    PRICE,
    CUSTOMER,
    SUBSCRIPTION,
    INVOICE,
    PAYMENT_INTENT,
    REFUND,
];

/// The states of a resource that has been created.
pub fn states(machine: &Declaration) -> impl Iterator<Item = &'static str> + use<> {
    let states = machine.states.iter().copied();
    states.filter(|state| *state != ABSENT)
}

#[cfg(test)]
mod tests {
    use abide::outcomes::Schema;

    use super::*;

    fn schema(machine: Declaration) -> Schema {
        Schema::new(machine).unwrap()
    }

    #[test]
    fn each_machine_makes_sense_and_nothing_is_uncreated() {
        for machine in ALL {
            schema(machine);
            assert!(machine.transitions.iter().all(|(.., to)| *to != ABSENT));
        }
    }

    #[test]
    fn late_money_is_always_recorded() {
        let subscription = schema(SUBSCRIPTION);
        for state in states(&SUBSCRIPTION).filter(|state| *state != COPY) {
            let heard = subscription.allowed(state).into_iter().any(|allowed| {
                allowed.action == "collect"
                    && matches!(allowed.outcome.as_str(), "paid" | "settled")
            });
            assert!(heard, "{state}");
        }
        for state in ["open", "uncollectible"] {
            let next = schema(INVOICE).next(state, "pay", "paid");
            assert_eq!(next, Some("paid"));
        }
    }

    #[test]
    fn what_has_no_row_is_refused() {
        for (machine, state, action, outcome) in [
            (INVOICE, "paid", "void", "voided"),
            (SUBSCRIPTION, "canceled", "advance", "advanced"),
            (PAYMENT_INTENT, "succeeded", "cancel", "canceled"),
            (PRODUCT, "nowhere", "create", "created"),
        ] {
            assert_eq!(schema(machine).next(state, action, outcome), None);
        }
    }
}
