//! Point-in-time recovery: bookmarks, restore, fork, and what keeps the archive small.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod bookmarks;
mod damage;
mod full_disk;
mod gaps;
mod regrown;
mod restore;
mod size;
pub(crate) mod world;
