//! The pass over all objects in the background: those of one first byte after the other.

use crate::archive::index::IndexEntry;
use crate::limits::{HYDRATION_BATCH_BYTES, HYDRATION_BATCH_OBJECTS, PAGE_BYTES};
use std::collections::VecDeque;

/// The cold objects of the next byte.
#[derive(Default)]
pub(crate) struct Pass {
    pub(crate) is_listed: bool,
    pub(crate) left: VecDeque<IndexEntry>,
}

impl Pass {
    /// The next objects, in the order of the archive.
    pub(crate) fn batch(&mut self) -> Vec<IndexEntry> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < HYDRATION_BATCH_OBJECTS && bytes < HYDRATION_BATCH_BYTES {
            let Some(next) = self.left.pop_front() else {
                break;
            };
            bytes += u64::from(next.newest.pages) * PAGE_BYTES as u64;
            batch.push(next);
        }
        batch
    }
}
