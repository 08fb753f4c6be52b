//! Tests of the outbox, its handlers and its service.

mod handlers;
mod live;
mod outbox;
mod service;
#[path = "../../../../verify/harness/shared/world.rs"]
mod world;
