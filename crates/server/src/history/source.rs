//! The archive and the log of a store, as what there is to copy.

use std::{
    io,
    time::{Duration, SystemTime},
};

use abide_history::{Part, Run, Snapshot, Source, StoredRun};
use abide_storage::{ArchivedRun, Lsn, Store};

use super::HistoryContent;
use crate::limits::LOG_WAIT;

/// See the module.
#[derive(Debug)]
pub(super) struct Archive(pub(super) Store);

impl Source for Archive {
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

    fn history_copied(&self, version: u64) {
        self.0.history_copied(version);
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

    fn wait_beyond(&self, position: u64) {
        self.0.wait_beyond(Lsn::from(position), LOG_WAIT);
    }

    fn copied(&self, position: u64) {
        self.0.copied(Lsn::from(position));
    }
}
