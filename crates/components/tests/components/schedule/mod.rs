//! Timers on an object's alarm: when they go off, what happens to those that fail or were missed, crashes, and clocks
//! that are set.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[allow(
    dead_code,
    reason = "both objects have all methods, and not every test asks both"
)]
mod support;
mod timelines;

mod background;
mod clock;
mod crash;
mod host;
mod many;
mod missed;
mod retries;
mod setting;
mod simulation;
mod suspects;
mod times;
