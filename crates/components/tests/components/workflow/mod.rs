//! The guarantees of workflows, tested through the public API on an in-memory disk with a manual clock.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod changes;
mod children;
mod clock;
mod concurrent;
mod continued;
mod control;
mod crash;
mod events;
mod host;
mod parallel;
mod random;
mod steps;
mod support;
mod timelines;
mod versions;
