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
    node.class::<Product>(ClassOptions::default())
        .class::<Price>(ClassOptions::default())
        .class::<Customer>(ClassOptions::default())
        .class::<Subscription>(ClassOptions::default())
        .class::<Invoice>(ClassOptions::default())
        .class::<PaymentIntent>(ClassOptions::default())
        .class::<Refund>(ClassOptions::default())
        .class::<FailedTimers>(ClassOptions::default())
}

/// Registers all classes with a host.
pub fn install(host: HostBuilder) -> HostBuilder {
    host.object::<Product>()
        .object::<Price>()
        .object::<Customer>()
        .object::<Subscription>()
        .object::<Invoice>()
        .object::<PaymentIntent>()
        .object::<Refund>()
        .object_with::<FailedTimers>(ClassOptions::default())
}
