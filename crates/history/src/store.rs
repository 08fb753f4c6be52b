//! A store, seen as keys and bytes.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{
    GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions,
    client::HttpConnector, path::Path,
};

use crate::{Access, Error, Location, Probe, Traffic, traffic::Counters};

/// A place for copies. Clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    location: Arc<Location>,
    counters: Arc<Counters>,
    /// What it can do, once that was tried.
    probe: Arc<OnceLock<Probe>>,
}

/// The outcome of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    Made,
    /// The store says that the key exists, or that another request writes it at this moment.
    Refused,
    /// The store, or an option, says that it cannot create only.
    Unknown,
}

/// An object of a listing.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: String,
    pub bytes: u64,
    /// On the store's clock.
    pub modified: SystemTime,
}

impl Store {
    /// Makes the client; sends no request.
    ///
    /// # Errors
    /// If an option is unknown or missing, or a directory does not exist.
    pub fn open(
        location: &Location,
        access: &Access,
        connector: impl HttpConnector,
    ) -> Result<Self, Error> {
        Ok(Self {
            objects: access.open(location, connector)?,
            location: Arc::new(location.clone()),
            counters: Arc::default(),
            probe: Arc::default(),
        })
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// What it has been asked since it was opened.
    pub fn traffic(&self) -> Traffic {
        self.counters.read()
    }

    /// True if it is known to replace what exists.
    pub(crate) fn replaces(&self) -> bool {
        self.probe().is_some_and(|probe| !probe.refuses_overwrites)
    }

    pub(crate) fn probe(&self) -> Option<Probe> {
        self.probe.get().copied()
    }

    pub(crate) fn set_probe(&self, probe: Probe) {
        let _ = self.probe.set(probe); // once and for all
    }

    /// Creates an object. In a store that replaces what exists, it is first looked for.
    pub(crate) async fn create(&self, key: &str, bytes: Bytes) -> Result<Creation, Error> {
        if self.replaces() && self.read(key).await?.is_some() {
            return Ok(Creation::Refused);
        }
        let mode = if self.replaces() {
            PutMode::Overwrite
        } else {
            PutMode::Create
        };
        self.put(key, bytes, mode).await
    }

    pub(crate) async fn put(
        &self,
        key: &str,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<Creation, Error> {
        self.counters.put(bytes.len() as u64);
        let options = PutOptions::from(mode);
        match self
            .objects
            .put_opts(&Path::from(key), bytes.into(), options)
            .await
        {
            Ok(_) => Ok(Creation::Made),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => Ok(Creation::Refused),
            Err(object_store::Error::NotImplemented { .. }) => Ok(Creation::Unknown),
            Err(error) if error.to_string().contains("status code: 501") => Ok(Creation::Unknown),
            Err(error) => Err(self.failed("creating", key, error)),
        }
    }

    /// The bytes of an object, if there is one.
    pub(crate) async fn read(&self, key: &str) -> Result<Option<Bytes>, Error> {
        self.get(key, GetOptions::default()).await
    }

    /// Some of its bytes. Fewer, if it is shorter.
    pub(crate) async fn read_range(
        &self,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, Error> {
        let options = GetOptions {
            range: Some(range.into()),
            ..GetOptions::default()
        };
        self.get(key, options).await
    }

    async fn get(&self, key: &str, options: GetOptions) -> Result<Option<Bytes>, Error> {
        self.counters.get();
        let result = self.objects.get_opts(&Path::from(key), options).await;
        let result = match result {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            result => result.map_err(|error| self.failed("reading", key, error))?,
        };
        let bytes = result.bytes().await;
        let bytes = bytes.map_err(|error| self.failed("reading", key, error))?;
        self.counters.received(bytes.len() as u64);
        Ok(Some(bytes))
    }

    /// The objects whose keys begin with a folder, by key.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<Entry>, Error> {
        let objects = self.objects.list(Some(&Path::from(folder)));
        self.entries(folder, objects.try_collect().await)
    }

    /// Those of them that come after a key.
    pub(crate) async fn list_after(&self, folder: &str, key: &str) -> Result<Vec<Entry>, Error> {
        let (prefix, key) = (Path::from(folder), Path::from(key));
        let objects = self.objects.list_with_offset(Some(&prefix), &key);
        self.entries(folder, objects.try_collect().await)
    }

    fn entries(
        &self,
        folder: &str,
        objects: object_store::Result<Vec<ObjectMeta>>,
    ) -> Result<Vec<Entry>, Error> {
        let count = objects.as_ref().map_or(0, Vec::len) as u64;
        self.counters.list(1 + count / 1000);
        let objects = objects.map_err(|error| self.failed("listing", folder, error))?;
        let mut entries: Vec<_> = objects
            .into_iter()
            .map(|object| Entry {
                key: object.location.to_string(),
                bytes: object.size,
                modified: object.last_modified.into(),
            })
            .collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    /// Deletes objects; those that do not exist are deleted already.
    pub(crate) async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        let each = keys.iter().map(|key| self.clone().delete_one(key.clone()));
        let each: Vec<_> = each.collect();
        let mut each = stream::iter(each).buffer_unordered(8);
        while each.try_next().await?.is_some() {}
        Ok(())
    }

    async fn delete_one(self, key: String) -> Result<(), Error> {
        self.counters.delete(1);
        match self.objects.delete(&Path::from(key.as_str())).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("deleting", &key, error)),
        }
    }

    fn failed(&self, action: &str, key: &str, error: object_store::Error) -> Error {
        Error::store(format!("{action} {key} in {}", self.location), error)
    }
}
