//! Tests that need a separate process: `decade` looks at the threads of nodes in its process to see whether one waits
//! for a processor, and threads of other tests would keep it waiting.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod decade;
