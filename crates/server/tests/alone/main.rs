//! Tests that need a separate process: `stalls` reads the log of its process, and others install a log, too.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod stalls;
#[path = "../server/support/mod.rs"]
#[allow(dead_code, reason = "this binary uses a part")]
mod support;
