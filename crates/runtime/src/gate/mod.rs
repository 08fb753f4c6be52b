//! The two gates of an object.
//!
//! The [`InputGate`] decides when a suspended handler may run on and when a waiting event may start. The output
//! gate ([`Lane`]) holds whatever leaves the object until the log is durable up to the object's newest write;
//! only it can make a [`Released`]. A [`Passage`] bounds what waits there.

mod input;
mod lane;
mod passage;

pub(crate) use input::{InputGate, Token};
pub use lane::Released;
pub(crate) use lane::{Departure, Lane, refuse};
pub(crate) use passage::{Doorway, Passage};
