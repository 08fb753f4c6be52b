//! The two gates of an object.
//!
//! The [`InputGate`] decides when a suspended handler may run on and when a waiting event may start. The output
//! gate ([`Lane`]) holds whatever leaves the object until the log is durable up to the object's newest write;
//! only it can make a [`Released`].

mod input;
mod lane;

pub(crate) use input::{InputGate, Token};
pub use lane::Released;
pub(crate) use lane::{Departure, Lane, refuse};
