//! Tests of objects and their runtime, through the public API.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod alarms;
mod book;
mod components;
mod dry_run;
mod objects;
mod reads;
mod recovery;
mod rpc;
mod settle;
mod support;
mod testing;
mod websockets;
