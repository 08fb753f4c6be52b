//! Tests of the e-mail outbox.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod api;
mod crash;
mod lists;
mod page;
mod secrets;
mod support;
mod sweep;
mod ticks;
mod walk;
