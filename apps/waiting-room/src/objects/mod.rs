//! The durable objects: one of each data centre of a room, one that all data centres of a room report to, and counters.

mod counter;
mod data_centre;
mod world;

pub use counter::{Claim, Number, TicketCounter};
pub(crate) use data_centre::counter_name;
pub use data_centre::{DataCentre, Happening, Terms};
pub use world::World;
