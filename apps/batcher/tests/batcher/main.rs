//! Tests of the batcher.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod batches;
mod crash;
mod walk;
