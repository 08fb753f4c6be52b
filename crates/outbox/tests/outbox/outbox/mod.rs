//! The guarantees of the outbox, tested through the public API on an in-memory disk with a manual clock.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod callbacks;
mod crash;
mod dead_letters;
mod durable;
mod edges;
mod endpoints;
mod enqueue;
mod fairness;
mod fan_out;
mod giving_up;
mod history;
mod metrics;
mod operations;
mod order;
mod overload;
mod pace;
mod ready;
mod retries;
mod silent;
mod simulation;
mod stopping;
mod support;
mod suspects;
mod throttling;
mod timelines;
mod trouble;
