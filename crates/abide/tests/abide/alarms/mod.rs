//! The guarantees about alarms, tested through the public API on an in-memory disk with a manual clock.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod clock;
mod crash;
mod firing;
mod given_up;
mod handler;
mod lives;
mod named;
mod restored;
mod retries;
mod sleeper;
mod spread;
mod suspects;
mod trouble;
