//! The archive of a store, as what there is to copy.

use std::time::{Duration, SystemTime};

use abide_history::{Run, Snapshot, Source};
use abide_storage::Store;

use super::HistoryContent;

/// See the module.
#[derive(Debug)]
pub(super) struct Archive(pub(super) Store);

impl Source for Archive {
    fn version(&self) -> u64 {
        self.0.history_version()
    }

    fn snapshot(&self) -> Option<Snapshot> {
        let copy = self.0.history_copy()?;
        let runs = copy.runs.iter().map(|run| Run {
            number: run.number,
            path: run.path.clone(),
            bytes: run.bytes,
        });
        let runs = runs.collect();
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(copy.archived_millis);
        let content = HistoryContent::of(copy)?.encode()?;
        Some(Snapshot {
            time,
            content,
            runs,
        })
    }
}
