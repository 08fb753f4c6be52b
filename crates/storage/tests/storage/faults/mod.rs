//! Faults of single files, a machine that is out of descriptors, and the repair of a quarantined object: what is
//! concerned, what keeps working, and that nothing acknowledged is lost.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod alarms;
mod crash;
mod descriptors;
mod files;
mod missing;
mod random;
mod repair;
pub(crate) mod world;
