//! The statements of sessions on a real PostgreSQL server, which is started for each test.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod contract;
mod faults;
mod lives;
mod logs;
mod merges;
mod setup;
mod support;
