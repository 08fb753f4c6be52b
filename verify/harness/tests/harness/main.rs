//! Tests of the harness, and checks of the whole workspace.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod acs;
mod api;
mod awaits;
mod ci;
mod doubles;
mod layers;
mod page;
mod supply_chain;
mod words;
