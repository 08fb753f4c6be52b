//! The built-in outbox over HTTP. Every response is checked against the API's document.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod dead_letters;
mod document;
mod live;
mod messages;
mod refusals;
mod support;
