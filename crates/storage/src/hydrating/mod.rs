//! Writes the files of cold objects: see [`crate::hydration`].

mod batch;
mod cold;
mod write;
