//! Tests of comments on blogs.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod api;
mod crash;
mod one_transaction;
mod page;
mod secrets;
mod support;
mod walk;
