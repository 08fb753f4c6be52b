//! The durable objects: one of each data centre of a room, one that all data centres of a room report to, and counters.

mod counter;
mod data_centre;
mod world;

pub(crate) use counter::counter_name;
pub use counter::{Claim, Number, TicketCounter};
pub use data_centre::{DataCentre, Happening, Reported, Terms};
pub use world::World;
