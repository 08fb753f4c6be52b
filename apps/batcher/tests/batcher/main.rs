//! Tests of the batcher.

mod batches;
mod crash;
mod walk;
