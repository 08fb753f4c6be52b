//! The classes that the simulation runs: real ones, on the public API alone.

mod ledger;
mod sender;
mod slate;

pub(crate) use self::{
    ledger::{Appended, Ledger},
    sender::{Circular, DeliveryOptions, Sender},
    slate::Slate,
};
