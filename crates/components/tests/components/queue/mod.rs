//! Queues on a node with an in-memory disk.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod consuming;
mod crash;
mod dead_letters;
mod elsewhere;
mod limits;
mod restores;
mod sending;
mod support;
mod suspects;
mod throttling;
mod timelines;
