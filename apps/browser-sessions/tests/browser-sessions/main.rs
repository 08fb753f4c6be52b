//! Tests of browser sessions.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod api;
mod crash;
mod failure;
mod guard;
mod page;
mod site;
mod steps;
mod store;
mod support;
mod visits;
mod walk;
