//! Downloading a copy, and checking one.
//!
//! Contract: a file has its final name only if it is whole and durable, and its length and checksum are those of the manifest.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::Duration;

use crate::{
    Error, Manifest, Store, StoredRun, TailCopy,
    backoff::Backoff,
    claim,
    fetched::{self, Fetched},
    replace,
    source::Part,
    tail_reader::TailReader,
};

/// Runs under way at once.
const AT_ONCE: usize = 4;

/// How often a request is repeated.
const ATTEMPTS: u32 = 6;

/// A copy that is to be downloaded: the runs of one manifest.
#[derive(Clone, Debug)]
pub struct Download {
    store: Store,
    manifest: Manifest,
    /// The tail continues the newest only.
    is_newest: bool,
}

/// What [`verify`] has read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The newest manifest.
    pub manifest: Manifest,
    /// What continues it.
    pub tail: TailCopy,
}

/// A run that is being read: where the next byte goes.
struct Target {
    file: File,
    length: u64,
    crc: u32,
}

impl Download {
    /// Finds the newest copy, or that of a manifest.
    ///
    /// # Errors
    /// [`Error::NoHistory`] if there is none, or the manifest has none; or what the store says.
    pub async fn find(store: &Store, number: Option<u64>) -> Result<Self, Error> {
        let location = store.location();
        let manifests = again(store, || claim::manifests(store)).await?;
        let newest = manifests.last().map(|(number, _)| *number);
        let newest =
            newest.ok_or_else(|| Error::NoHistory(format!("there is no history at {location}")))?;
        let number = number.unwrap_or(newest);
        let manifest = match again(store, || claim::manifest(store, number)).await {
            Err(Error::Missing { .. }) => {
                let text = format!("there is no manifest {number} at {location}");
                return Err(Error::NoHistory(text));
            }
            manifest => manifest?,
        };
        if manifest.content.is_none() {
            return Err(Error::NoHistory(format!(
                "manifest {number} at {location} has no complete copy: the first upload has not ended"
            )));
        }
        Ok(Self {
            store: store.clone(),
            manifest,
            is_newest: number == newest,
        })
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The newest copy, if there is a newer one than a manifest. Takes one request if there is none.
    ///
    /// # Errors
    /// What the store says.
    pub async fn newer_than(store: &Store, number: u64) -> Result<Option<Self>, Error> {
        let mut newest = None;
        for number in number + 1.. {
            match again(store, || claim::manifest(store, number)).await {
                Err(Error::Missing { .. }) => break,
                manifest => newest = Some(manifest?),
            }
        }
        let newest = newest.filter(|manifest| manifest.content.is_some());
        Ok(newest.map(|manifest| Self {
            store: store.clone(),
            manifest,
            is_newest: true,
        }))
    }

    /// Downloads all runs into a directory, each as `NUMBER.run` with 16 hex digits, and removes others. Called again, after a
    /// failure or for a later copy, it continues: files that are there are checked, unless they were before, and kept.
    /// `progress` is told the bytes done, and of how many.
    ///
    /// # Errors
    /// If an object is missing or damaged, the store does not answer, or a file cannot be written.
    pub async fn save(&self, dir: &Path, progress: impl Fn(u64, u64)) -> Result<(), Error> {
        let total = self.manifest.bytes();
        let done = AtomicU64::new(0);
        let advance = |bytes| progress(done.fetch_add(bytes, Relaxed) + bytes, total);
        progress(0, total);
        let (runs, of) = (self.manifest.runs.clone(), dir.to_owned());
        let missing = self.store.machine().on_thread(move || {
            let fetched = Fetched::read(&of);
            let (held, missing): (Vec<_>, _) =
                runs.into_iter().partition(|run| fetched.has(&of, run));
            Ok((held.iter().map(|run| run.bytes).sum(), missing))
        });
        let (held, missing): (u64, Vec<_>) = missing.await?;
        advance(held);
        let each = missing.iter().map(|run| self.run(run, dir, &advance));
        let mut each = stream::iter(each).buffer_unordered(AT_ONCE);
        while each.try_next().await?.is_some() {}
        let (runs, dir) = (self.manifest.runs.clone(), dir.to_owned());
        self.store
            .machine()
            .on_thread(move || {
                sync_dir(&dir)?;
                Fetched::write(&dir, &runs)
            })
            .await
    }

    /// Leaves in the store what a directory does not have of the runs, and returns it. A directory has what [`Self::save`] has
    /// downloaded, for this copy or an earlier one. The files of other runs are removed. The store keeps what is left there as long as
    /// the copies that list it, and those of the directory that takes over from this copy.
    ///
    /// # Errors
    /// If a file cannot be written or removed.
    pub async fn leave(&self, dir: &Path) -> Result<Vec<StoredRun>, Error> {
        let (runs, dir) = (self.manifest.runs.clone(), dir.to_owned());
        self.store
            .machine()
            .on_thread(move || {
                let fetched = Fetched::read(&dir);
                let (held, left): (Vec<_>, Vec<_>) =
                    runs.into_iter().partition(|run| fetched.has(&dir, run));
                Fetched::write(&dir, &held)?;
                Ok(left)
            })
            .await
    }

    /// Downloads the part of the log that continues the runs into a directory, each piece as `NUMBER.part` with 16 hex digits. Files
    /// of an earlier attempt are replaced. An older manifest than the newest has no tail. Call it before [`Self::save`]: pieces are
    /// deleted ten minutes after a later copy has the log in runs.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub async fn save_tail(&self, dir: &Path) -> Result<TailCopy, Error> {
        let emptied = dir.to_owned();
        self.store
            .machine()
            .on_thread(move || empty(&emptied))
            .await?;
        let mut reader = TailReader::new(&self.store, &self.manifest, self.is_newest).await?;
        while let Some((number, part)) = reader.next().await? {
            let path = dir.join(format!("{number:016x}.part"));
            self.store
                .machine()
                .on_thread(move || write_part(&path, &part))
                .await?;
        }
        let dir = dir.to_owned();
        self.store
            .machine()
            .on_thread(move || sync_dir(&dir))
            .await?;
        Ok(reader.read())
    }

    async fn run(&self, run: &StoredRun, dir: &Path, advance: &impl Fn(u64)) -> Result<(), Error> {
        let path = fetched::file(dir, run.number);
        let part = fetched::unfinished(dir, run.number);
        if self
            .store
            .machine()
            .on_thread(is_whole(path.clone(), run))
            .await?
        {
            advance(run.bytes);
            return Ok(());
        }
        let mut target = self
            .store
            .machine()
            .on_thread(resume(part.clone(), run.bytes))
            .await?;
        let resumed = target.length;
        advance(resumed);
        target = self.fill(run, target, advance).await?;
        if target.crc != run.crc32c && resumed > 0 {
            // What an earlier attempt left may be what is wrong.
            let path = part.clone();
            self.store
                .machine()
                .on_thread(move || {
                    fs::remove_file(&path).map_err(|error| Error::file(&path, error))
                })
                .await?;
            let fresh = self
                .store
                .machine()
                .on_thread(resume(part.clone(), run.bytes))
                .await?;
            target = self.fill(run, fresh, &|_| {}).await?;
        }
        check(run, &target)?;
        self.store
            .machine()
            .on_thread(move || {
                let Target { file, .. } = target;
                file.sync_all().map_err(|error| Error::file(&part, error))?;
                fs::rename(&part, &path).map_err(|error| Error::file(&path, error))
            })
            .await
    }

    /// Reads the rest of a run.
    async fn fill(
        &self,
        run: &StoredRun,
        mut target: Target,
        advance: &impl Fn(u64),
    ) -> Result<Target, Error> {
        let mut begin = 0;
        for (key, length) in run.parts() {
            let end = begin + length;
            if target.length < end {
                let bytes = self.part(&key, target.length - begin, length).await?;
                let count = bytes.len() as u64;
                target = self
                    .store
                    .machine()
                    .on_thread(move || target.write(&bytes))
                    .await?;
                advance(count);
            }
            begin = end;
        }
        Ok(target)
    }

    async fn part(&self, key: &str, from: u64, length: u64) -> Result<Bytes, Error> {
        read_part(&self.store, key, from, length).await
    }
}

/// Reads every run that the newest manifest lists, and its tail, and keeps nothing. `progress` is told the bytes of runs done, and of
/// how many.
///
/// # Errors
/// If there is no copy, an object is missing or damaged, or the store does not answer.
pub async fn verify(store: &Store, progress: impl Fn(u64, u64)) -> Result<Verified, Error> {
    let Download { manifest, .. } = Download::find(store, None).await?;
    // What the runs of a later copy have of it is deleted soon.
    let mut reader = TailReader::new(store, &manifest, true).await?;
    while reader.next().await?.is_some() {}
    let tail = reader.read();
    let total = manifest.bytes();
    let done = AtomicU64::new(0);
    let each = manifest.runs.iter().map(|run| {
        let (progress, done) = (&progress, &done);
        verify_run(store, run, move |bytes| {
            progress(done.fetch_add(bytes, Relaxed) + bytes, total);
        })
    });
    let mut each = stream::iter(each).buffer_unordered(AT_ONCE);
    while each.try_next().await?.is_some() {}
    drop(each);
    Ok(Verified { manifest, tail })
}

/// Reads a whole run, part by part, and keeps nothing. `progress` is told the bytes of each part.
///
/// # Errors
/// If an object is missing or damaged, or the store does not answer.
pub async fn verify_run(
    store: &Store,
    run: &StoredRun,
    progress: impl Fn(u64),
) -> Result<(), Error> {
    let mut crc = 0;
    for (key, length) in run.parts() {
        let bytes = read_part(store, &key, 0, length).await?;
        crc = crc32c::crc32c_append(crc, &bytes);
        progress(length);
    }
    compare(run, crc)
}

async fn read_part(store: &Store, key: &str, from: u64, length: u64) -> Result<Bytes, Error> {
    let bytes = again(store, || async {
        // A range of no bytes is none.
        if from == 0 {
            store.read(key).await
        } else {
            store.read_range(key, from..length).await
        }
    })
    .await?;
    let bytes = bytes.ok_or_else(|| Error::Missing {
        key: key.to_owned(),
    })?;
    if bytes.len() as u64 != length - from {
        let have = bytes.len() as u64 + from;
        let how = format!("it has {have} bytes instead of {length}");
        return Err(Error::damaged(key, how));
    }
    Ok(bytes)
}

/// Repeats what the store does not answer.
pub(crate) async fn again<T, F: Future<Output = Result<T, Error>>>(
    store: &Store,
    work: impl Fn() -> F,
) -> Result<T, Error> {
    let mut backoff = Backoff::new(Duration::from_secs(10));
    loop {
        match work().await {
            Err(Error::Store { .. }) if backoff.failures() + 1 < ATTEMPTS => {
                let wait = backoff.failed(store.machine());
                store.machine().sleep(wait).await;
            }
            result => return result,
        }
    }
}

fn check(run: &StoredRun, target: &Target) -> Result<(), Error> {
    if target.length != run.bytes {
        let how = format!("it has {} bytes instead of {}", target.length, run.bytes);
        return Err(Error::damaged(&run.key, how));
    }
    compare(run, target.crc)
}

fn compare(run: &StoredRun, crc: u32) -> Result<(), Error> {
    if crc == run.crc32c {
        return Ok(());
    }
    Err(Error::damaged(&run.key, "its checksum is wrong"))
}

/// Whether a file is there and is a run; a file that is not is removed.
fn is_whole(path: PathBuf, run: &StoredRun) -> impl FnOnce() -> Result<bool, Error> + use<> {
    let run = run.clone();
    move || {
        let failed = |error| Error::file(&path, error);
        if !path.try_exists().map_err(failed)? {
            return Ok(false);
        }
        let mut target = Target {
            file: File::open(&path).map_err(failed)?,
            length: 0,
            crc: 0,
        };
        target.read().map_err(failed)?;
        if target.length == run.bytes && target.crc == run.crc32c {
            return Ok(true);
        }
        fs::remove_file(&path).map_err(failed)?;
        Ok(false)
    }
}

/// Opens an unfinished file, and reads what it has.
fn resume(path: PathBuf, bytes: u64) -> impl FnOnce() -> Result<Target, Error> {
    move || {
        let failed = |error| Error::file(&path, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut target = Target {
            file: options.mode(0o600).open(&path).map_err(failed)?,
            length: 0,
            crc: 0,
        };
        target.read().map_err(failed)?;
        if target.length > bytes {
            target.file.set_len(0).map_err(failed)?;
            target.file.seek(SeekFrom::Start(0)).map_err(failed)?;
            (target.length, target.crc) = (0, 0);
        }
        Ok(target)
    }
}

impl Target {
    /// Reads to the end.
    fn read(&mut self) -> std::io::Result<()> {
        let mut piece = vec![0; 1 << 20];
        loop {
            match self.file.read(&mut piece)? {
                0 => return Ok(()),
                length => self.count(&piece[..length]),
            }
        }
    }

    fn write(mut self, bytes: &[u8]) -> Result<Self, Error> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| Error::store("writing a run".to_owned(), error))?;
        self.count(bytes);
        Ok(self)
    }

    fn count(&mut self, bytes: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.length += bytes.len() as u64;
    }
}

/// Makes an empty directory.
fn empty(dir: &Path) -> Result<(), Error> {
    let failed = |error| Error::file(dir, error);
    fs::create_dir_all(dir).map_err(failed)?;
    for file in fs::read_dir(dir).map_err(failed)? {
        fs::remove_file(file.map_err(failed)?.path()).map_err(failed)?;
    }
    Ok(())
}

fn write_part(path: &Path, part: &Part) -> Result<(), Error> {
    let written = || {
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(path)?;
        file.write_all(&part.bytes)?;
        file.sync_all()
    };
    written().map_err(|error| Error::file(path, error))
}

fn sync_dir(dir: &Path) -> Result<(), Error> {
    replace::sync_dir(dir).map_err(|error| Error::file(dir, error))
}
