//! Tests of the storage engine.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod archive_crash;
mod bounds;
mod cbor;
mod closing;
mod common;
mod copied;
mod crash;
mod database;
mod deletion;
mod exports;
mod faults;
mod files;
mod forks;
mod full_start;
mod growth;
mod idempotency;
mod invariants;
mod large_restores;
mod lives;
mod log_parts;
mod memory;
mod model;
mod parallel;
mod recovery_points;
mod release;
mod restored_directory;
mod shards;
mod sql;
mod stalls;
mod sweep;
mod temporary;
mod wall_clock;
