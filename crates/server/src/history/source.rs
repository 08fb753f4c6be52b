//! The archive and the log of a store, as what there is to copy.

use std::{
    io,
    time::{Duration, SystemTime},
};

use abide_history::{Part, Run, Sleep, Snapshot, Source, StoredRun};
use abide_storage::{ArchivedRun, Lsn, Store};
use tokio::task::spawn_blocking;

use super::HistoryContent;
use crate::limits::LOG_WAIT;

/// The archive and the log of a store, as what a node with `archive.url` copies.
#[derive(Clone, Debug)]
pub struct HistorySource(Store);

impl HistorySource {
    /// Of a store that is open.
    pub fn new(store: &Store) -> Self {
        Self(store.clone())
    }
}

impl Source for HistorySource {
    fn version(&self) -> u64 {
        self.0.history_version()
    }

    fn snapshot(&self) -> Option<Snapshot> {
        let copy = self.0.history_copy()?;
        let run = |run: &ArchivedRun| {
            let stored = run.remote.as_deref().map(StoredRun::at);
            Some(Run {
                number: run.number,
                path: run.path.clone(),
                bytes: run.bytes,
                stored: stored.transpose().ok()?,
            })
        };
        let runs = copy.runs.iter().map(run).collect::<Option<_>>()?;
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(copy.archived_millis);
        let end = copy.archived.get();
        let content = HistoryContent::of(copy)?.encode()?;
        Some(Snapshot {
            time,
            content,
            runs,
            end,
        })
    }

    fn history_copied(&self, version: u64, runs: &[StoredRun]) {
        self.0.history_copied(version);
        let places = runs.iter().map(|run| Some((run.number, run.place().ok()?)));
        self.0.runs_copied(places.flatten().collect());
    }

    fn is_awaited(&self) -> bool {
        self.0.awaits_history_copy()
    }

    fn end(&self) -> u64 {
        self.0.durable_here().get()
    }

    fn part(&self, from: Option<u64>, most: usize) -> io::Result<Option<Part>> {
        let part = self.0.log_part(from.map(Lsn::from), most);
        let part = part.map_err(io::Error::other)?.map(|part| Part {
            first: part.first.get(),
            end: part.end.get(),
            bytes: part.bytes.into(),
        });
        Ok(part)
    }

    fn beyond(&self, position: u64) -> Sleep {
        let store = self.0.clone();
        let waiting = move || store.wait_beyond(Lsn::from(position), LOG_WAIT);
        Box::pin(async move {
            // If there is no thread, the shipper looks at once.
            let _ = spawn_blocking(waiting).await;
        })
    }

    fn copied(&self, position: u64) {
        self.0.copied(Lsn::from(position));
    }
}
