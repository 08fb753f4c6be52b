//! Tests of the server, through real sockets.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod absent;
mod access;
mod admin;
mod budgets;
mod edge;
mod extractors;
mod front;
mod hostile;
mod json_rpc;
mod memory;
mod objects;
mod outbound;
mod peers;
mod proxies;
mod site;
mod start;
mod support;
mod tls;
mod websockets;
