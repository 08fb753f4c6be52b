//! Simulated clusters.

mod model;
mod seeds;
