//! What documents promise, tested through the public API: a fake gateway holds the clients' ends, the disk is in memory.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod awareness;
#[path = "../../../../../verify/harness/shared/yjs.rs"]
mod client;
mod compaction;
mod refusals;
mod support;
mod sync;
mod work;
