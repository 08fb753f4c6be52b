//! The patterns on a node with a disk in memory, at a clock that stands still: each against a small model of what it
//! promises, with kills and power failures. `ABIDE_PATTERNS_SEEDS` says how many seeds.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod cleanup;
mod leaderboard;
mod limiter;
mod lock;
mod presence;
mod retry;
mod sessions;
mod sharding;
mod support;
