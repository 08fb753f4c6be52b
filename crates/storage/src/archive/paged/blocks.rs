//! The blocks of runs that were read last.

use crate::archive::run::RunReader;
use crate::error::Result;
use crate::limits::LARGE_OBJECT_BLOCKS;
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of a run, and a position in it.
type At = (u64, u64);

/// See the module. The least recently used is the first.
#[derive(Default)]
pub(super) struct Blocks(Mutex<VecDeque<(At, Arc<Vec<u8>>)>>);

impl Blocks {
    /// The entries of a block.
    pub(super) fn read(&self, run: &RunReader, at: u64) -> Result<Arc<Vec<u8>>> {
        let key = (run.meta.number, at);
        {
            let mut known = self.0.lock();
            let place = known.iter().position(|(of, _)| *of == key);
            if let Some(found) = place.and_then(|place| known.remove(place)) {
                let block = found.1.clone();
                known.push_back(found);
                return Ok(block);
            }
        }
        let block = Arc::new(run.block(at)?.0);
        let mut known = self.0.lock();
        known.push_back((key, block.clone()));
        if known.len() > LARGE_OBJECT_BLOCKS {
            known.pop_front();
        }
        Ok(block)
    }
}
