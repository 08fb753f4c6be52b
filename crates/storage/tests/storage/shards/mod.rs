//! Stores that share objects: each owns some shards, and takes over those that others give up or leave behind.

mod claims;
mod lives;
mod moves;
mod runs;
mod world;
