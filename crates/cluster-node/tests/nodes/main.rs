//! Processes of a cluster on a real PostgreSQL server.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod cluster;
mod lives;
mod members;
mod objects;
mod process;
mod rebuild;
mod runs;
mod takeover;
