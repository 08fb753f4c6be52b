//! The resources: objects with their own chains.
//!
//! Contract: every class has the calls `transition`, `get_state`, `get_history` and the others in `calls`. In addition,
//! there are a few calls that decide something before they write; all of them are repeatable.

mod calls;
mod customer;
mod failed_timers;
mod invoice;
mod payment_intent;
mod plain;
mod refund;
mod stored;
mod subscription;

use abide::{ClassOptions, NodeBuilder, server::HostBuilder};

pub use customer::Customer;
pub(crate) use failed_timers::failed_timers;
pub use failed_timers::{FailedTimer, FailedTimers};
pub use invoice::{Invoice, NewCreditNote};
pub use payment_intent::{NewPaymentRefund, PaymentIntent};
pub use plain::{Price, Product};
pub use refund::Refund;
pub(crate) use stored::Stored;
pub use subscription::{Entitlement, NewSubscription, OwnTerms, Subscription};

/// Registers all classes.
pub fn register(node: NodeBuilder) -> NodeBuilder {
    node.class::<Product>("PRODUCT", ClassOptions::default())
        .class::<Price>("PRICE", ClassOptions::default())
        .class::<Customer>("CUSTOMER", ClassOptions::default())
        .class::<Subscription>("SUBSCRIPTION", ClassOptions::default())
        .class::<Invoice>("INVOICE", ClassOptions::default())
        .class::<PaymentIntent>("PAYMENT_INTENT", ClassOptions::default())
        .class::<Refund>("REFUND", ClassOptions::default())
        .class::<FailedTimers>("FAILED_TIMERS", ClassOptions::default())
}

/// Registers all classes with a host.
pub fn install(host: HostBuilder) -> HostBuilder {
    host.object::<Product>("PRODUCT")
        .object::<Price>("PRICE")
        .object::<Customer>("CUSTOMER")
        .object::<Subscription>("SUBSCRIPTION")
        .object::<Invoice>("INVOICE")
        .object::<PaymentIntent>("PAYMENT_INTENT")
        .object::<Refund>("REFUND")
        .object_with::<FailedTimers>("FAILED_TIMERS", ClassOptions::default())
}
