//! Tests of flights and their seats.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod api;
mod bad_input;
mod closing;
mod crash;
mod page;
mod support;
mod tour;
mod walk;
