//! Tests of the built-in components.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod delivery;
mod outcomes;
mod party;
mod patterns;
mod projection;
mod queue;
mod schedule;
mod workflow;
#[path = "../../../../verify/harness/shared/world.rs"]
mod world;
mod yjs;
