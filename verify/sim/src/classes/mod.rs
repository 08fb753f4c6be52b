//! The classes that the simulation runs: real ones, on the public API alone.

mod ledger;
mod sender;

pub(crate) use self::{
    ledger::{Appended, Ledger},
    sender::{Circular, DeliveryOptions, Sender},
};
