//! Tests of waiting rooms.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod bad_input;
mod compared;
mod crash;
mod data_centres;
mod draws;
mod many;
mod objects;
mod overhead;
mod page;
mod proxy;
mod queue;
mod room_lives;
mod support;
mod walk;
