//! What a life has to copy: the source of a server, whose runs are put where the uploader can read them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use abide::{
    clock::{Clock as _, TestClock},
    history::{Part, Run, Sleep, Snapshot, Source, StoredRun},
    server::HistorySource,
    storage::{Disk as _, OpenMode, SimDisk, Store},
};
use tokio::sync::Notify;

use crate::history::{Event, Recorder};

/// How long the shipper waits for the log before it looks again.
const LOG_WAIT: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct SimSource {
    source: HistorySource,
    disk: SimDisk,
    /// Of the uploader.
    runs: PathBuf,
    recorder: Recorder,
    clock: TestClock,
    /// The log was written.
    written: Arc<Notify>,
    /// The position up to which the log was reported as copied.
    copied: AtomicU64,
}

impl SimSource {
    pub(super) fn new(
        store: &Store,
        disk: &SimDisk,
        runs: &Path,
        recorder: &Recorder,
        clock: &TestClock,
        written: &Arc<Notify>,
    ) -> Self {
        Self {
            source: HistorySource::new(store),
            disk: disk.clone(),
            runs: runs.to_owned(),
            recorder: recorder.clone(),
            clock: clock.clone(),
            written: Arc::clone(written),
            copied: AtomicU64::new(0),
        }
    }

    /// Puts a run where the uploader reads it.
    fn put(&self, run: &mut Run) -> io::Result<()> {
        if run.stored.is_some() {
            return Ok(());
        }
        let path = self.runs.join(run.path.file_name().unwrap_or_default());
        if !path.try_exists()? {
            let file = self.disk.open(&run.path, OpenMode::Existing)?;
            let mut bytes = vec![0; file.len()? as usize];
            let read = file.read_at(&mut bytes, 0)?;
            fs::write(&path, &bytes[..read])?;
        }
        run.path = path;
        Ok(())
    }
}

impl Source for SimSource {
    fn version(&self) -> u64 {
        self.source.version()
    }

    fn snapshot(&self) -> Option<Snapshot> {
        let mut snapshot = self.source.snapshot()?;
        for run in &mut snapshot.runs {
            self.put(run).ok()?;
        }
        Some(snapshot)
    }

    fn history_copied(&self, version: u64, runs: &[StoredRun]) {
        self.source.history_copied(version, runs);
    }

    fn is_awaited(&self) -> bool {
        self.source.is_awaited()
    }

    fn end(&self) -> u64 {
        self.source.end()
    }

    fn part(&self, from: Option<u64>, most: usize) -> io::Result<Option<Part>> {
        self.source.part(from, most)
    }

    fn beyond(&self, position: u64) -> Sleep {
        let written = Arc::clone(&self.written).notified_owned();
        if self.end() > position {
            return Box::pin(async {});
        }
        let late = self.clock.sleep_until(self.clock.now() + LOG_WAIT);
        Box::pin(async {
            tokio::select! {
                biased;
                () = written => {}
                () = late => {}
            }
        })
    }

    fn copied(&self, position: u64) {
        if self.copied.fetch_max(position, Ordering::Relaxed) < position {
            self.recorder.note(Event::Copied(position));
        }
        self.source.copied(position);
    }
}
