//! The two gates of an object.
//!
//! The [`InputGate`] decides when a suspended handler may run on and when a waiting event may start. The output
//! gate ([`Lane`]) holds whatever leaves the object ([`Departure`]) until the log is durable up to the object's newest
//! write; only it can make a [`Released`]. A [`GatePermit`] bounds what waits there; [`Egress`] runs what a departure needs of
//! the program's code.

mod departure;
mod egress;
mod input;
#[cfg(test)]
#[cfg(feature = "interleavings")]
mod interleavings;
mod lane;
mod permit;
mod released;

pub(crate) use departure::{Departure, Discarded, refuse};
pub(crate) use egress::{Egress, EgressTask};
pub(crate) use input::{InputGate, Token};
pub(crate) use lane::Lane;
pub(crate) use permit::{GatePermit, HeldBytes};
pub use released::Released;
