//! Tests of the help desk: its API, what takes time, and the real program.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod api;
mod clock;
mod crash;
mod page;
mod support;
