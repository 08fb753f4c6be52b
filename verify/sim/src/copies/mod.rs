//! The copies of a node's history in the bucket, as a node with `archive.url` makes them.
//!
//! The uploader is the one of a server, and so are its source and the restore. It runs on the executor of its life and on the plan's
//! clock, with seeded numbers. What it reads and writes of real files is in a directory of each machine, in memory where there is one:
//! `history.json`, and the runs that it uploads or has downloaded. The power does not fail while it writes there.

mod machine;
mod remote;
mod restore;
mod source;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use abide::{
    clock::TestClock,
    history::{Options, Store as Objects, Uploader},
    storage::{SimDisk, Store},
};
use abide_storage::RemoteRuns;
use tempfile::TempDir;
use tokio::sync::Notify;

pub(crate) use self::restore::{Unrestored, has_copy, restore};
use self::{machine::SimMachine, remote::LeftRuns, source::SimSource};
use crate::{bucket::Bucket, executor::Executor, history::Recorder, plan::Copying};

/// The name of the bucket.
const URL: &str = "s3://simulation/node";

/// Where there is a disk in memory.
const MEMORY: &str = "/dev/shm";

/// The bucket, and what the machines that use it have of real files.
pub(crate) struct Place {
    pub(crate) bucket: Bucket,
    pub(crate) is_awaited: bool,
    clock: TestClock,
    seed: u64,
    files: TempDir,
    /// The machines so far.
    machines: u32,
    /// The clients so far.
    clients: u64,
}

impl Place {
    /// None if the plan has no copies.
    pub(crate) fn new(copying: Copying, seed: u64, clock: &TestClock) -> io::Result<Option<Self>> {
        if copying == Copying::Off {
            return Ok(None);
        }
        let files = tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir())?;
        let place = Self {
            bucket: Bucket::new(seed, clock),
            is_awaited: copying == Copying::Awaited,
            clock: clock.clone(),
            seed,
            files,
            machines: 0,
            clients: 0,
        };
        fs::create_dir(place.dir())?;
        Ok(Some(place))
    }

    /// The files of the present machine.
    fn dir(&self) -> PathBuf {
        self.files.path().join(self.machines.to_string())
    }

    /// Begins another machine, without files.
    fn next_machine(&mut self) -> io::Result<()> {
        self.machines += 1;
        fs::create_dir(self.dir())
    }

    /// A client of the bucket, with its own numbers.
    fn objects(&mut self, bucket: Bucket) -> Objects {
        self.clients += 1;
        let seed = self.seed.wrapping_add(self.clients << 32);
        let machine = SimMachine::new(seed, &self.clock);
        #[allow(clippy::expect_used, reason = "it is a constant")]
        let location = URL.parse().expect("a URL");
        Objects::of(Arc::new(bucket), machine, &location)
    }

    /// The runs that a lazy restore has left in the bucket.
    pub(crate) fn remote_runs(&mut self) -> Arc<dyn RemoteRuns> {
        let bucket = self.bucket.clone();
        Arc::new(LeftRuns::new(&self.objects(bucket)))
    }
}

/// The uploader of one life.
pub(crate) struct Copies {
    uploader: Uploader,
    written: Arc<Notify>,
    store: Store,
}

impl Copies {
    /// Begins to copy. The uploader itself looks whose the history is.
    pub(crate) fn start(
        place: &mut Place,
        executor: &Executor,
        disk: &SimDisk,
        store: &Store,
        recorder: &Recorder,
    ) -> Result<Self, String> {
        let files = place.dir();
        let runs = files.join("runs");
        renew(&runs).map_err(|error| error.to_string())?;
        let written = Arc::new(Notify::new());
        let source = SimSource::new(store, disk, &runs, recorder, &place.clock, &written);
        let options = Options {
            interval: Duration::from_secs(2),
            ship: Some(Duration::from_millis(500)),
            eager: place.is_awaited,
            keep: Duration::from_hours(1),
            part: 64 << 10,
            stage: 256 << 10,
            poll: Duration::from_millis(100),
            patience: Duration::from_secs(5),
            ..Options::default()
        };
        let bucket = place.bucket.clone();
        let objects = place.objects(bucket);
        let started =
            executor.inside(|| Uploader::start(objects, &files, Arc::new(source), options));
        Ok(Self {
            uploader: started.map_err(|error| error.to_string())?,
            written,
            store: store.clone(),
        })
    }

    /// The log was written.
    pub(crate) fn wrote(&self) {
        self.written.notify_waiters();
    }

    /// True if something is not known to be in the bucket.
    pub(crate) fn is_behind(&self) -> bool {
        let copied = self.uploader.status().copied;
        copied.is_none_or(|copied| copied.position < self.store.durable_here().get())
    }

    /// Why nothing is copied any more, if another machine has taken the history over.
    pub(crate) fn superseded(&self) -> Option<String> {
        self.uploader.status().superseded
    }

    /// Copies what is new, within a time, and ends.
    pub(crate) async fn finish(self, time: Duration) {
        self.uploader.finish(time).await;
    }
}

/// Makes an empty directory.
fn renew(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(dir)
}
