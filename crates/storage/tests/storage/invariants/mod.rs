//! The numbered invariants of the crate's documentation, one by one.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod acts;
mod alarms;
mod checkpoint;
mod damage;
mod names;
mod panics;
mod refused;
mod syncs;
