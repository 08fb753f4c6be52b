//! The rules of delivery, the same for every component that delivers: `docs/delivery-rules.md` lists them.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod crashes;
mod retries;
mod server;
mod support;
mod throttling;
