//! Copies of history in a bucket that fails in every way a bucket can.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod download;
mod encrypted;
mod front;
mod garbage;
mod idle;
mod judge;
mod left;
mod lives;
mod machine;
mod net;
mod ownership;
mod places;
mod probe;
mod ranges;
mod tail;
mod upload;
