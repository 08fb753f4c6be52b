//! Opens a data directory that no node serves.

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use abide::{
    FoundObject, Timestamp,
    server::{
        Config, HistoryPlace, Sources,
        access::{AccessStore, Operation},
    },
    storage::{ArchiveOptions, RealDisk, Store, StoreOptions},
};
use abide_storage::{Disk as _, DiskFile, ErrorKind, NODE_FILE, ObjectKey, RemoteRuns};
use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::outbox::Settings;

/// The options that select a data directory.
#[derive(Args)]
pub(crate) struct DataArgs {
    /// File of settings [default: ./abide.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Data directory [default: data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// An open data directory. No other process can open it until it is closed.
pub(crate) struct Data {
    pub(crate) store: Store,
    dir: PathBuf,
}

/// One object of a data directory.
pub(crate) struct Found {
    /// The unique key of its namespace: by default the class name.
    pub(crate) class: String,
    pub(crate) key: ObjectKey,
}

impl DataArgs {
    /// The settings that a node of this directory would use.
    pub(crate) fn config(&self) -> Result<Config> {
        let sources = Sources {
            file: self.config.clone(),
            listen: None,
            data: self.data.clone(),
            memory: None,
            insecure: false,
            take_over: false,
        };
        let (config, _) = Config::load_with::<Settings>(&sources)?;
        Ok(config)
    }

    /// The directory; created with private permissions if it does not exist.
    pub(crate) fn make_dir(&self) -> Result<PathBuf> {
        let dir = self.config()?.data.dir;
        RealDisk
            .create_dir_all(&dir)
            .with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }

    /// The tokens and the audit log of the directory, which a node may be serving.
    pub(crate) fn access(&self) -> Result<AccessStore> {
        let dir = self.config()?.data.dir;
        ensure!(
            dir.is_dir(),
            "there is no data directory {}; select one with --data",
            dir.display()
        );
        Ok(AccessStore::open(&dir)?)
    }

    /// Opens the directory unless a process is using it.
    pub(crate) fn open_unless_served(&self) -> Result<Option<Data>> {
        if self.config()?.data.dir.join(NODE_FILE).exists() {
            // Only the node of a cluster has its objects.
            return Ok(None);
        }
        match self.open() {
            Err(error) if is_in_use(&error) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Opens the directory, which replays its log. Does not create one.
    pub(crate) fn open(&self) -> Result<Data> {
        let config = self.config()?;
        let runs = remote_runs(&config);
        Self::open_with(&config, runs)
    }

    /// As [`Self::open`], although the store that has a part of its history is lost.
    pub(crate) fn open_without_store(&self) -> Result<Data> {
        Self::open_with(&self.config()?, Some(Arc::new(Lost)))
    }

    fn open_with(config: &Config, runs: Option<Arc<dyn RemoteRuns>>) -> Result<Data> {
        let dir = &config.data.dir;
        ensure!(
            dir.is_dir(),
            "there is no data directory {}; select one with --data",
            dir.display()
        );
        let mut entries =
            std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
        ensure!(
            entries.next().is_some(),
            "{} is empty; select a data directory with --data",
            dir.display()
        );
        let options = StoreOptions::default()
            .segment_bytes(config.storage.segment_bytes)
            .checkpoint_bytes(config.storage.checkpoint_bytes)
            .remote_runs(runs)
            // A tool adds to the archive like a node, but leaves removing old history to the node, and bringing it back from a store.
            .archive(
                ArchiveOptions::default()
                    .enabled(config.archive.enabled)
                    .retention(Duration::MAX)
                    .max_bytes(u64::MAX)
                    .local_bytes(0),
            );
        Ok(Data {
            store: Store::open(Arc::new(RealDisk), dir, options)?,
            dir: dir.clone(),
        })
    }
}

/// A store that is gone, with the runs that it had.
struct Lost;

impl RemoteRuns for Lost {
    fn open(&self, _: u64, _: &str) -> io::Result<Arc<dyn DiskFile>> {
        Err(io::Error::other("the store is lost"))
    }
}

/// The runs that are in a store alone. The directory is opened without them if it has none.
fn remote_runs(config: &Config) -> Option<Arc<dyn RemoteRuns>> {
    let place = HistoryPlace::of(&config.archive).unwrap_or_else(|error| {
        eprintln!("warning: {error}");
        None
    });
    place.map(|place| place.remote_runs())
}

/// A time in human-readable form.
pub(crate) fn time(at: SystemTime) -> String {
    let millis = at
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    Timestamp::from_unix_millis(i64::try_from(millis).unwrap_or(i64::MAX)).to_string()
}

/// Makes a change after recording it in the audit log.
pub(crate) fn audited<R>(
    log: &AccessStore,
    action: &str,
    object: Option<String>,
    detail: Option<String>,
    change: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let id = log.begin(&Operation {
        who: format!("user {}", rustix::process::getuid().as_raw()),
        client: "local".to_owned(),
        action: action.to_owned(),
        object,
        detail,
    })?;
    let changed = change();
    let outcome = match &changed {
        Ok(_) => "ok".to_owned(),
        Err(error) => format!("failed: {error:#}"),
    };
    log.end(id, &outcome)?;
    changed
}

fn is_in_use(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<abide_storage::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::InUse)
}

impl Data {
    /// Every object, by class and id.
    pub(crate) fn objects(&self) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        for (namespace, class) in self.store.namespaces() {
            let keys = self.store.objects(namespace)?;
            found.extend(keys.into_iter().map(|key| Found {
                class: class.clone(),
                key,
            }));
        }
        Ok(found)
    }

    /// The objects that are unavailable until they are repaired: class, key, and why.
    pub(crate) fn quarantined(&self) -> Vec<(String, ObjectKey, String)> {
        let namespaces = self.store.namespaces();
        let class = |key: ObjectKey| {
            let known = namespaces.iter().find(|(no, _)| *no == key.namespace);
            known.map_or_else(String::new, |(_, class)| class.clone())
        };
        let listed = self.store.quarantined().into_iter();
        listed
            .map(|object| (class(object.key), object.key, object.why))
            .collect()
    }

    /// Makes a change to an object after recording it in the audit log.
    pub(crate) fn audited<R>(
        &self,
        action: &str,
        object: Option<&FoundObject>,
        detail: Option<String>,
        change: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let object = object.map(ToString::to_string);
        self.audited_as(action, object, detail, change)
    }

    /// As [`Self::audited`], for an object that may not exist.
    pub(crate) fn audited_as<R>(
        &self,
        action: &str,
        object: Option<String>,
        detail: Option<String>,
        change: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let log = AccessStore::open(&self.dir)?;
        audited(&log, action, object, detail, change)
    }

    /// Makes everything durable and releases the directory.
    pub(crate) fn close(self) -> Result<()> {
        Ok(self.store.close()?)
    }
}
