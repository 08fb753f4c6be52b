//! Writes the files of cold objects: see [`crate::hydration`].

mod batch;
mod cold;
mod large;
mod write;

pub(crate) use large::shared;
