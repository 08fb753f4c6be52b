//! Tests of the request scheduler.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod api;
mod bad_input;
mod crash;
mod page;
mod support;
mod virtual_time;
mod walk;
