//! Subscription billing in which every resource is a durable object.
//!
//! The pure part, which knows no objects and no clock:
//!
//! - [`Money`], [`Currency`]: whole numbers of the minor unit, with named rounding.
//! - [`Anchor`], [`Period`]: the periods of a subscription, counted from a fixed moment.
//! - [`proration`]: what a part of a period costs.
//! - [`Lines`]: lines that add up to their invoice.
//! - [`machines`]: what each resource may do in each of its states, as tables.
//! - [`states`]: what a resource's chain comes to, and what is decided from it.
//!
//! And what the objects use:
//!
//! - [`resources`]: the objects, on one base ([`resource`]).
//! - [`clock`]: what of a subscription happens by itself, and when.
//! - [`payment`]: a payment as a workflow.
//! - [`gateway`]: who takes the money, and a double of one that behaves badly.
//! - [`hooks`]: webhooks for whoever wants to know what happens.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod assets;
pub mod broken;
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
