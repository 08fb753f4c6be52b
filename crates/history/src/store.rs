//! A store, seen as keys and bytes.
//!
//! With a [`CopyKey`] all objects are encrypted here, and no other module knows of it: bytes and lengths are those of the content.

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

use crate::{
    Access, CopyKey, Error, Location, Machine, Probe, RealMachine, Traffic,
    cipher::{self, Header, Unreadable},
    traffic::Counters,
};

/// Longer objects are encrypted and decrypted on another thread.
const LONG: usize = 256 << 10;

/// A place for copies. Clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    machine: Arc<dyn Machine>,
    location: Arc<Location>,
    counters: Arc<Counters>,
    /// What it can do, once that was tried.
    probe: Arc<OnceLock<Probe>>,
    /// With which all objects are encrypted.
    key: Option<CopyKey>,
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
        let objects = access.open(location, connector)?;
        Ok(Self::of(objects, Arc::new(RealMachine), location))
    }

    /// A client of one's own, under a name, used on a machine.
    pub fn of(
        objects: Arc<dyn ObjectStore>,
        machine: Arc<dyn Machine>,
        location: &Location,
    ) -> Self {
        Self {
            objects,
            machine,
            location: Arc::new(location.clone()),
            counters: Arc::default(),
            probe: Arc::default(),
            key: None,
        }
    }

    /// The machine that uses it.
    pub(crate) fn machine(&self) -> &dyn Machine {
        &*self.machine
    }

    /// The same, to keep.
    pub(crate) fn shared_machine(&self) -> &Arc<dyn Machine> {
        &self.machine
    }

    /// Encrypts all that it writes, and reads only what is encrypted with this key. Names, lengths and times of objects remain visible.
    #[must_use]
    pub fn with_key(mut self, key: CopyKey) -> Self {
        self.key = Some(key);
        self
    }

    /// The same place without a key, for what says nothing.
    pub(crate) fn without_key(&self) -> Self {
        let key = None;
        Self {
            key,
            ..self.clone()
        }
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
        let bytes = match &self.key {
            Some(copy_key) => self.encrypted(copy_key, key, bytes).await?,
            None => bytes,
        };
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
        let Some((bytes, _)) = self.get(key, None).await? else {
            return Ok(None);
        };
        let Some(copy_key) = &self.key else {
            self.must_be_plain(key, &bytes)?;
            return Ok(Some(bytes));
        };
        let (copy_key, object, length) = (copy_key.clone(), key.to_owned(), bytes.len());
        let decrypt = move || cipher::decrypt(&copy_key, &object, &bytes);
        let decrypted = self.heavy(length, decrypt).await?;
        decrypted.map(Some).map_err(|why| self.unreadable(key, why))
    }

    /// Some of its bytes. Fewer, if it is shorter.
    pub(crate) async fn read_range(
        &self,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, Error> {
        if let Some(copy_key) = &self.key {
            return self.read_blocks(copy_key, key, range).await;
        }
        let from = range.start;
        let Some((bytes, _)) = self.get(key, Some(range)).await? else {
            return Ok(None);
        };
        if from == 0 {
            self.must_be_plain(key, &bytes)?;
        }
        Ok(Some(bytes))
    }

    /// Reads and decrypts the blocks that have a part of an object.
    async fn read_blocks(
        &self,
        copy_key: &CopyKey,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, Error> {
        const HEADER: u64 = cipher::HEADER_BYTES as u64;
        let unreadable = |why| self.unreadable(key, why);
        let blocks = cipher::stored_range(&range);
        // The header comes with the first block, or alone.
        let is_together = blocks.start == HEADER;
        let end = if is_together { blocks.end } else { HEADER };
        let Some((begin, length)) = self.get(key, Some(0..end)).await? else {
            return Ok(None);
        };
        let header = Header::read(copy_key, &begin).map_err(unreadable)?;
        let content =
            cipher::content_length(length).ok_or_else(|| unreadable(Unreadable::CutOff))?;
        let range = range.start.min(content)..range.end.min(content);
        if range.is_empty() {
            return Ok(Some(Bytes::new()));
        }
        let stored = if is_together {
            begin.slice(cipher::HEADER_BYTES..)
        } else {
            match self.get(key, Some(blocks)).await? {
                Some((stored, _)) => stored,
                None => return Ok(None),
            }
        };
        let first = cipher::block_of(range.start);
        let (copy_key, object, count) = (copy_key.clone(), key.to_owned(), stored.len());
        let decrypt = move || header.decrypt(&copy_key, &object, length, first, &stored);
        let decrypted = self.heavy(count, decrypt).await?.map_err(unreadable)?;
        let begin = cipher::beginning_of(first);
        let wanted = (range.start - begin) as usize..(range.end - begin) as usize;
        if decrypted.len() < wanted.end {
            return Err(unreadable(Unreadable::CutOff));
        }
        Ok(Some(decrypted.slice(wanted)))
    }

    /// The stored bytes of an object, or a range of them, and its length in the store.
    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
    ) -> Result<Option<(Bytes, u64)>, Error> {
        self.counters.get();
        let options = GetOptions {
            range: range.map(Into::into),
            ..GetOptions::default()
        };
        let result = self.objects.get_opts(&Path::from(key), options).await;
        let result = match result {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            result => result.map_err(|error| self.failed("reading", key, error))?,
        };
        let length = result.meta.size;
        let bytes = result.bytes().await;
        let bytes = bytes.map_err(|error| self.failed("reading", key, error))?;
        self.counters.received(bytes.len() as u64);
        Ok(Some((bytes, length)))
    }

    /// Refuses an encrypted object: there is no key.
    fn must_be_plain(&self, key: &str, stored: &[u8]) -> Result<(), Error> {
        if !cipher::is_encrypted(stored) {
            return Ok(());
        }
        Err(Error::Configuration(format!(
            "{key} in {} is encrypted: give the file with its key, with the setting archive.key_file or with --key-file",
            self.location
        )))
    }

    fn unreadable(&self, key: &str, why: Unreadable) -> Error {
        let location = &self.location;
        match why {
            Unreadable::NotEncrypted => Error::Configuration(format!(
                "{key} in {location} is not encrypted, and a key is given: use a new place for encrypted copies, or remove \
                 archive.key_file or --key-file to use this one without encryption"
            )),
            Unreadable::OtherKey(id) => Error::Configuration(format!(
                "{key} in {location} is encrypted with another key: its key has the id {id}, and the one that is given {}. Give the \
                 file with that key; with a new key, use a new place",
                self.key.as_ref().map_or(id, |key| key.id)
            )),
            Unreadable::OtherVersion(version) => {
                let how = format!("it is encrypted in the unknown version {version}");
                Error::damaged(key, how)
            }
            Unreadable::CutOff => Error::damaged(key, "it is cut off"),
            Unreadable::Block(number) => Error::damaged(
                key,
                format!("block {number} of it is not what was encrypted there"),
            ),
        }
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
                bytes: self.content_length(object.size),
                modified: object.last_modified.into(),
            })
            .collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    /// The length of an object's content. What cannot be an encrypted object has none.
    fn content_length(&self, stored: u64) -> u64 {
        match self.key {
            Some(_) => cipher::content_length(stored).unwrap_or(0),
            None => stored,
        }
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

    /// Encrypts an object.
    async fn encrypted(
        &self,
        copy_key: &CopyKey,
        key: &str,
        content: Bytes,
    ) -> Result<Bytes, Error> {
        let (copy_key, object, length) = (copy_key.clone(), key.to_owned(), content.len());
        let encrypt = move || cipher::encrypt(&copy_key, &object, &content);
        self.heavy(length, encrypt).await?
    }

    /// Does what takes as long as there are bytes: some milliseconds for the longest, which would hold others up.
    async fn heavy<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if bytes <= LONG {
            return Ok(work());
        }
        self.machine.on_thread(move || Ok(work())).await
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    fn store(key: Option<CopyKey>) -> Store {
        let location = "s3://bucket/shop".parse().unwrap();
        let store = Store::of(Arc::new(InMemory::new()), Arc::new(RealMachine), &location);
        Store { key, ..store }
    }

    fn random(bound: u64) -> u64 {
        getrandom::u64().unwrap() % bound
    }

    #[tokio::test]
    async fn ranges_of_encrypted_objects_are_those_of_their_content() {
        let store = store(Some(CopyKey::new(&[1; 32])));
        for (index, length) in [0, 1, 65_536, 65_537, 200_000, 300_000].iter().enumerate() {
            let key = format!("runs/{index}");
            let content: Vec<u8> = (0..*length).map(|at: u32| (at % 251) as u8).collect();
            let content = Bytes::from(content);
            let made = store.create(&key, content.clone()).await.unwrap();
            assert_eq!(made, Creation::Made);
            assert_eq!(store.read(&key).await.unwrap().unwrap(), content);
            let listed = store.list("runs").await.unwrap();
            assert_eq!(listed[index].bytes, u64::from(*length));
            for _ in 0..40 {
                let start = random(u64::from(*length) + 70_000);
                let end = start + 1 + random(150_000);
                let of = |position: u64| (position as usize).min(content.len());
                let wanted = content.slice(of(start)..of(end));
                let before = store.traffic();
                let read = store.read_range(&key, start..end).await.unwrap().unwrap();
                assert!(read == wanted, "{start}..{end} of {length}");
                let received = store.traffic().received - before.received;
                assert!(received < end - start + 150_000, "not more than needed");
            }
        }
        assert_eq!(store.read_range("runs/none", 1..2).await.unwrap(), None);
        assert_eq!(
            store
                .read_range("runs/none", 99_999..200_000)
                .await
                .unwrap(),
            None
        );
    }

    #[tokio::test]
    async fn a_damaged_range_is_found_and_an_intact_one_is_read() {
        let store = store(Some(CopyKey::new(&[1; 32])));
        let content = Bytes::from(vec![5; 200_000]);
        store.create("a", content).await.unwrap();
        let plain = store.without_key();
        let (stored, _) = plain.get("a", None).await.unwrap().unwrap();
        let mut damaged = stored.to_vec();
        damaged[36 + 65_576 + 100] ^= 1; // in the second block
        plain
            .put("a", damaged.into(), PutMode::Overwrite)
            .await
            .unwrap();
        assert!(store.read("a").await.is_err());
        for range in [0..70_000, 65_536..65_537, 70_000..200_000] {
            let error = store.read_range("a", range).await.unwrap_err().to_string();
            assert!(error.contains("a is damaged: block 1 of it"), "{error}");
        }
        assert!(store.read_range("a", 0..65_536).await.is_ok());
        assert!(store.read_range("a", 131_072..200_000).await.is_ok());
        // Cut off after a block.
        let cut = stored.slice(..36 + 2 * 65_576);
        plain.put("a", cut, PutMode::Overwrite).await.unwrap();
        assert!(store.read_range("a", 65_536..70_000).await.is_err());
    }

    #[tokio::test]
    async fn the_wrong_key_and_none_are_refused_with_what_to_do() {
        let one = store(Some(CopyKey::new(&[1; 32])));
        one.create("sealed", Bytes::from_static(b"content"))
            .await
            .unwrap();
        let plain = one.without_key();
        plain
            .create("plain", Bytes::from_static(b"content"))
            .await
            .unwrap();
        let other = plain.clone().with_key(CopyKey::new(&[2; 32]));
        for (store, key, says) in [
            (&plain, "sealed", "is encrypted: give the file with its key"),
            (&one, "plain", "is not encrypted, and a key is given"),
            (&other, "plain", "is not encrypted, and a key is given"),
            (&other, "sealed", "is encrypted with another key"),
        ] {
            let whole = store.read(key).await.unwrap_err();
            let part = store.read_range(key, 0..20).await.unwrap_err();
            for error in [whole, part] {
                assert!(error.is_refusal());
                let error = error.to_string();
                assert!(error.contains(says), "{error}");
            }
        }
    }
}
