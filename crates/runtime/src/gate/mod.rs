//! The two gates of an object.
//!
//! The [`InputGate`] decides when a suspended handler may continue and when a waiting event may start. The output gate
//! ([`Lane`]) holds everything that leaves the object ([`Departure`]) until the log is durable up to the object's
//! newest write; only it can create a [`Released`]. A [`GatePermit`] limits what waits there; [`Egress`] runs the code
//! of the program that a departure requires.

mod departure;
mod egress;
mod input;
#[cfg(test)]
#[cfg(feature = "interleavings")]
mod interleavings;
mod lane;
mod lease;
mod permit;
mod released;

pub(crate) use departure::{Departure, Discarded, refuse};
pub(crate) use egress::{Egress, EgressTask, OutgoingRequest};
pub(crate) use input::{InputGate, Token};
pub(crate) use lane::Lane;
pub use lease::OutputLease;
pub(crate) use permit::{GatePermit, HeldBytes};
pub use released::Released;
