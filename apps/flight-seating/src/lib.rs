//! An airline's seat maps: one durable object for each flight and date.
//!
//! The object ([`FlightSeating`]) decides who sits where; the router ([`router`]) turns HTTP into calls of it. Two people
//! who want one seat meet in the object, which handles one event at a time, so exactly one of them gets it; and nobody is
//! told so before it is on disk.
#![forbid(unsafe_code)]

mod flight;
mod http;
mod seating;

pub use flight::{Cabin, Flight, Invalid, occupant};
pub use http::router;
pub use seating::{Assigned, Created, FlightSeating, Seat, SeatingError};

/// The name under which the class is registered.
pub const BINDING: &str = "FLIGHT_SEATING";
