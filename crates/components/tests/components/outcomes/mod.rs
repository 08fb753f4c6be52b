//! The guarantees of outcomes, tested through the public API on an in-memory disk with a manual clock.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod damage;
mod model;
mod replay;
mod schema;
mod snapshot;
mod support;
mod transition;
mod versions;
