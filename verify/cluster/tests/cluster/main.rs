//! Simulated clusters.

mod model;
mod seeds;
mod tables;
