//! An airline's seat maps: one durable object for each flight and date.
//!
//! The object ([`FlightSeating`]) decides who sits where; the router ([`router`]) turns HTTP requests into calls of it.
//! Two people who want the same seat meet in the object, which handles one event at a time, so exactly one of them gets
//! it; and no client gets a confirmation before the seat is on disk. Watchers of a cabin are notified of changes over a
//! WebSocket, for which the object need not stay in memory.
//!
//! After its departure a flight can be closed: its seat map becomes a JSON document in the archive ([`FlightArchive`], one for each
//! date), where it stays readable at the same address, and the flight's own object is deleted.
#![forbid(unsafe_code)]

mod archive;
mod flight;
mod http;
mod seating;

pub use archive::{Closed, FlightArchive};
pub use flight::{Cabin, Flight, Invalid, occupant};
pub use http::router;
pub use seating::{Assigned, Created, FlightSeating, MAX_WATCHERS, News, Seat, SeatingError};
