//! Subscription billing in which every resource is a durable object.
//!
//! The pure part, without objects and clocks:
//!
//! - [`Money`], [`Currency`]: whole numbers of the minor unit, with named rounding.
//! - [`Anchor`], [`Period`]: the periods of a subscription, counted from a fixed moment.
//! - [`proration`]: the cost of a part of a period.
//! - [`Lines`]: lines that add up to their invoice.
//! - [`machines`]: the possible transitions of each resource, as tables.
//! - [`states`]: the state of a resource's chain, and the decisions based on it.
//!
//! The part with objects:
//!
//! - [`resources`]: the objects, on one base ([`resource`]).
//! - [`clock`]: what happens in a subscription on its own, and when.
//! - [`payment`]: a payment as a workflow.
//! - [`gateway`]: the payment gateway, and a local one with fault injection.
//! - [`hooks`]: webhooks for external receivers.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod assets;
mod calendar;
pub mod clock;
mod error;
pub mod gateway;
pub mod hooks;
pub mod host;
mod lines;
pub mod machines;
mod money;
mod pages;
pub mod payment;
pub mod proration;
pub mod read;
pub mod resource;
pub mod resources;
pub mod states;
pub mod test_clock;
mod time;
mod web;

pub use calendar::{Anchor, CalendarError, Every, Period, Unit};
pub use error::BillingError;
pub use lines::{Line, LineKind, Lines, Totals};
pub use money::{Currency, Money, MoneyError, Rounding};
pub use states::DUNNING_DAYS;
pub use time::Time;
pub use web::{OPENAPI, router};
