//! Processes of a cluster on a real PostgreSQL server.

mod cluster;
mod lives;
mod process;
mod takeover;
