//! Copies of a store: the places to which they go, and the task that makes them.

use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use abide::{
    history::{Access, Connector, Location, Options, Store as Copies, Uploader},
    server::{ArchiveConfig, HistoryPlace, HistorySource, StoreAccess, tls_client_config},
};
use abide_storage::Store;
use anyhow::{Context as _, Result, bail, ensure};
use tokio::runtime::Runtime;

use crate::{ours::node, process::Owned};

/// A copy that takes longer has failed.
const PATIENCE: Duration = Duration::from_mins(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const COPIES: &str = "s3://bench/copies";

/// A bucket in the memory of another process, behind the S3 protocol on this machine.
pub(crate) struct Bucket {
    endpoint: String,
    _child: Owned,
}

impl Bucket {
    pub(crate) fn start() -> Result<Self> {
        let mut child = Owned::ourselves("bucket", Path::new("."), 0)?;
        let endpoint = child.lines()?.next();
        let endpoint = endpoint.context("the bucket has ended; its error is above")??;
        Ok(Self {
            endpoint,
            _child: child,
        })
    }

    /// A client of it.
    pub(crate) fn open(&self) -> Result<Copies> {
        let options = self.options().into_iter();
        let access = options.fold(Access::from_env(), |access, (name, value)| {
            access.option(name, value)
        });
        open(COPIES, &access)
    }

    /// The same place, as the settings of a node name it.
    pub(crate) fn place(&self) -> Result<HistoryPlace> {
        let options = self.options().into_iter();
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut archive = ArchiveConfig::default();
        archive.url = Some(COPIES.to_owned());
        archive.options = StoreAccess(options.collect());
        HistoryPlace::of(&archive)?.context("the settings have no place")
    }

    fn options(&self) -> [(&str, &str); 5] {
        [
            ("access_key_id", "bench"),
            ("secret_access_key", "bench"),
            ("region", "us-east-1"),
            ("endpoint", &self.endpoint),
            ("allow_http", "true"),
        ]
    }
}

/// The child's part.
pub(crate) fn serve_bucket() -> Result<()> {
    let runtime = node::runtime()?;
    let front = runtime.block_on(async { abide_s3::serve(abide_s3::Bucket::new(0)).await })?;
    println!("{}", front.endpoint());
    node::wait_for_owner()
}

/// A directory for copies.
pub(crate) fn directory(dir: &Path) -> Result<Copies> {
    let dir = dir.canonicalize()?;
    open(&format!("file://{}", dir.display()), &Access::from_env())
}

fn open(url: &str, access: &Access) -> Result<Copies> {
    let location: Location = url.parse()?;
    let tls = tls_client_config(&[]).context("the trusted certificates")?;
    Ok(Copies::open(&location, access, Connector::new(tls))?)
}

/// The task that copies a store.
pub(crate) struct Copier {
    uploader: Uploader,
    store: Store,
}

impl Copier {
    /// Starts it. `dir` is the store's data directory.
    pub(crate) fn start(
        runtime: &Runtime,
        dir: &Path,
        store: &Store,
        copies: &Copies,
        options: Options,
    ) -> Result<Self> {
        let _inside = runtime.enter();
        let source = Arc::new(HistorySource::new(store));
        let uploader = Uploader::start(copies.clone(), dir, source, options)?;
        Ok(Self {
            uploader,
            store: store.clone(),
        })
    }

    /// Takes a checkpoint, and waits until everything is copied.
    pub(crate) fn settle(&self) -> Result<()> {
        self.store.checkpoint()?;
        let begun = Instant::now();
        while !self.is_settled()? {
            ensure!(begun.elapsed() < PATIENCE, "the store is not copied");
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Waits until everything is copied, and nothing has changed for some time: merges of the archive have ended.
    pub(crate) fn settle_for(&self, time: Duration) -> Result<()> {
        loop {
            self.settle()?;
            let before = (self.store.history_version(), self.uploader.traffic());
            thread::sleep(time);
            if before == (self.store.history_version(), self.uploader.traffic()) {
                return Ok(());
            }
        }
    }

    fn is_settled(&self) -> Result<bool> {
        let status = self.uploader.status();
        if let Some(failing) = status.failing {
            bail!("copying fails: {}", failing.error)
        }
        if let Some(superseded) = status.superseded {
            bail!("copying has ended: {superseded}")
        }
        let is_archived = self.store.stats().archive_lag_bytes == 0;
        Ok(is_archived && status.version == Some(self.store.history_version()))
    }

    /// The number of the newest copy, and the length of its runs.
    pub(crate) fn newest(&self) -> Result<(u64, u64)> {
        let published = self.uploader.status().published;
        let published = published.context("there is no copy")?;
        Ok((published.number, published.bytes))
    }
}
