//! Tests of billing.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod access;
mod api;
mod clock;
mod commands;
mod gateway;
mod ledger;
mod node;
mod page;
mod payment;
mod resources;
mod secrets;
mod states;
mod tour;
mod walk;
mod webhooks;
