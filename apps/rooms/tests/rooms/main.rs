//! Tests of rooms with documents.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod crash;
mod measure;
mod node;
mod page;
mod rooms;
mod support;
mod walk;
