//! A sweep of the archive: every object gets into it, and its runs alone have every object's state.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod copies;
mod crash;
mod idle;
mod lives;
mod slices;
