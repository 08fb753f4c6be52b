//! Which worker an object is on, for the life of a node.
//!
//! Contract: an object whose pages may have to be fetched from the archive first ([`Store::large_cold_objects`]) is on a **cold
//! worker**, so that only other such objects wait for the fetch. It stays there until the next start. Cold workers come after
//! the others, and only a node with such objects has any.
//!
//! [`Store::large_cold_objects`]: abide_storage::Store::large_cold_objects

use abide_storage::ObjectKey;
use rustc_hash::FxHashMap;

use crate::{ObjectId, limits::MAX_COLD_WORKERS};

/// See the module.
pub(crate) struct Placement {
    /// Without the cold ones.
    workers: usize,
    cold: FxHashMap<ObjectId, usize>,
}

impl Placement {
    /// For this many workers, and some more for these objects.
    pub(crate) fn new(workers: usize, cold: &[ObjectKey]) -> Self {
        let cold_workers = cold.len().clamp(1, MAX_COLD_WORKERS);
        let places = (workers..workers + cold_workers).cycle();
        let ids = cold.iter().map(|key| ObjectId::from_bytes(key.id));
        Self {
            workers,
            cold: ids.zip(places).collect(),
        }
    }

    /// The number of workers, the cold ones included.
    pub(crate) fn total(&self) -> usize {
        self.workers + self.cold.len().min(MAX_COLD_WORKERS)
    }

    /// The number of workers of which none may be blocked.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// The place of the worker that an object is on.
    pub(crate) fn worker_of(&self, id: &ObjectId) -> usize {
        if self.cold.is_empty() {
            return id.worker(self.workers);
        }
        let cold = self.cold.get(id).copied();
        cold.unwrap_or_else(|| id.worker(self.workers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide_storage::NamespaceNo;

    fn keys(count: u8) -> Vec<ObjectKey> {
        let key = |byte| ObjectKey {
            namespace: NamespaceNo(1),
            id: [byte; 32],
        };
        (0..count).map(key).collect()
    }

    #[test]
    fn cold_objects_share_no_worker_with_others() {
        for count in [0, 1, 3, 9] {
            let cold = keys(count);
            let placement = Placement::new(4, &cold);
            assert_eq!(
                placement.total(),
                4 + usize::from(count).min(MAX_COLD_WORKERS)
            );
            for key in keys(200) {
                let place = placement.worker_of(&ObjectId::from_bytes(key.id));
                assert_eq!(place >= 4, cold.contains(&key), "{count}: {key:?}");
                assert!(place < placement.total());
            }
        }
    }
}
