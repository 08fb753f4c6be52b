//! The resources: each an object with a chain of its own.
//!
//! Contract: every class answers `transition`, `get_state`, `get_history` and what else stands in `calls`. Beside them are the
//! few calls that decide something before they write; all of those may be repeated.

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
use abide_patterns::schedule;

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
    node.class::<Product>("PRODUCT", schedule::class_options())
        .class::<Price>("PRICE", schedule::class_options())
        .class::<Customer>("CUSTOMER", schedule::class_options())
        .class::<Subscription>("SUBSCRIPTION", schedule::class_options())
        .class::<Invoice>("INVOICE", schedule::class_options())
        .class::<PaymentIntent>("PAYMENT_INTENT", schedule::class_options())
        .class::<Refund>("REFUND", schedule::class_options())
        .class::<FailedTimers>("FAILED_TIMERS", ClassOptions::default())
}

/// Registers all classes with a host.
pub fn install(host: HostBuilder) -> HostBuilder {
    host.object_with::<Product>("PRODUCT", schedule::class_options())
        .object_with::<Price>("PRICE", schedule::class_options())
        .object_with::<Customer>("CUSTOMER", schedule::class_options())
        .object_with::<Subscription>("SUBSCRIPTION", schedule::class_options())
        .object_with::<Invoice>("INVOICE", schedule::class_options())
        .object_with::<PaymentIntent>("PAYMENT_INTENT", schedule::class_options())
        .object_with::<Refund>("REFUND", schedule::class_options())
        .object_with::<FailedTimers>("FAILED_TIMERS", ClassOptions::default())
}
