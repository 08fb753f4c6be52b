//! A data directory that is built from the runs of an archive and a manifest.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod ahead;
mod crash;
mod few_reads;
mod incomplete;
mod keeping;
mod large;
mod lazy;
mod life;
mod lives;
mod many;
mod proof;
mod refused;
mod remote;
mod shipped;
mod tail;
mod tail_refused;
mod time;
mod timelines;
