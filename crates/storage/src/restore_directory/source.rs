//! The runs that a directory is restored from: each is read as a whole before anything is written, and then object by
//! object.

use super::continued::LOST_BYTES;
use super::progress::Progress;
use crate::archive::entry::{Entry, Kind};
use crate::archive::index::IndexEntry;
use crate::archive::newest::NewestEntries;
use crate::archive::run::RunReader;
use crate::archive::stream::{Merged, Stream};
use crate::archive::{self, DIR};
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::ObjectKey;
use crate::limits::MAX_LARGE_OBJECTS;
use crate::manifest::{Manifest, RunMeta};
use crate::options::StoreOptions;
use crate::parallel;
use crate::sync::Mutex;
use std::collections::BTreeSet;
use std::path::Path;

/// Bytes of a run after which the progress is told.
const TOLD_BYTES: u64 = 4 << 20;

/// The whole archive.
pub(super) struct Source<'a> {
    pub(super) manifest: &'a Manifest,
    /// Oldest first.
    runs: Vec<RunReader>,
}

/// What the indexes say.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) objects: u64,
    /// Up to [`MAX_LARGE_OBJECTS`] large ones.
    pub(super) large: BTreeSet<String>,
}

impl<'a> Source<'a> {
    /// Opens every run and reads all of it. Those that are known to be damaged count only if they are not.
    pub(super) fn open(
        disk: &dyn Disk,
        dir: &Path,
        manifest: &'a Manifest,
        threads: usize,
        progress: &Progress<'_>,
    ) -> Result<Self> {
        let dir = dir.join(DIR);
        let listed = manifest.archive.runs.iter().enumerate();
        let listed = listed.map(|(place, run)| (Some(place), run));
        // The tail may continue them.
        let replacements = replacements(manifest).map(|run| (None, run));
        let listed: Vec<_> = listed.chain(replacements).collect();
        let whole = Mutex::new(Vec::new());
        parallel::for_each(threads, &listed, |(place, run)| {
            match verified(disk, &dir, run, manifest.redo, progress) {
                Ok(reader) => whole.lock().extend(place.map(|place| (place, reader))),
                Err(error) if error.kind() != ErrorKind::Damaged => return Err(error),
                Err(error) if manifest.archive.damaged.contains(&run.number) => {
                    tracing::warn!(%error, "restoring without a run that was damaged before");
                }
                Err(error) => {
                    tracing::error!(%error, "a run is missing or damaged");
                    return Err(Error::damaged(format!(
                        "nothing was restored: {} is missing or damaged; copy it again from where it came",
                        dir.join(RunMeta::file_name(run.number)).display()
                    )));
                }
            }
            Ok(())
        })?;
        let mut whole = whole.into_inner();
        whole.sort_by_key(|(place, _)| *place);
        Ok(Self {
            manifest,
            runs: whole.into_iter().map(|(_, reader)| reader).collect(),
        })
    }

    /// Opens every run, and reads only where in it things are.
    pub(super) fn open_unread(
        disk: &dyn Disk,
        dir: &Path,
        manifest: &'a Manifest,
        options: &StoreOptions,
    ) -> Result<Self> {
        let dir = dir.join(DIR);
        let open = |run: &RunMeta| {
            let reader = match manifest.archive.remote.get(&run.number) {
                Some(place) => RunReader::open_remote(options, &dir, run, place)?,
                None => RunReader::open(disk, &dir, run)?,
            };
            reader.verify_length().map(|()| reader)
        };
        for run in replacements(manifest) {
            open(run)?;
        }
        let runs = manifest.archive.runs.iter().map(open);
        Ok(Self {
            manifest,
            runs: runs.collect::<Result<_>>()?,
        })
    }

    /// Adds a run that is newer than all others.
    pub(super) fn add(&mut self, run: RunReader) {
        self.runs.push(run);
    }

    /// An object's entry in the newest run that contains it.
    pub(super) fn newest(&mut self, key: ObjectKey) -> Result<Option<IndexEntry>> {
        for run in self.runs.iter_mut().rev() {
            let found = run.find(key)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Counts the objects, also those that have ended. A large one has at least this many pages.
    pub(super) fn count(&self, large_pages: u32) -> Result<Counted> {
        let mut newest = NewestEntries::of(self.runs.iter().cloned());
        let mut counted = Counted::default();
        for byte in 0..=u8::MAX {
            let found = newest.with_first_byte(byte);
            let is_large = |entry: &&IndexEntry| entry.newest.pages >= large_pages;
            let large = found.values().filter(is_large);
            counted
                .large
                .extend(large.map(|entry| entry.key.to_string()));
            while counted.large.len() > MAX_LARGE_OBJECTS {
                counted.large.pop_last();
            }
            for key in found.into_keys() {
                if self.manifest.is_deleted(key.namespace) {
                    continue;
                }
                if self.manifest.unique_key(key.namespace).is_none() {
                    return Err(Error::refused(format!(
                        "the archive has an object of class number {}, which the copy of the manifest does not have: they do \
                         not belong together",
                        key.namespace.0
                    )));
                }
                counted.objects += 1;
            }
        }
        Ok(counted)
    }

    /// The objects whose ids begin with this byte.
    pub(super) fn part(&self, byte: u8) -> Result<Part<'a>> {
        let mut streams = Vec::new();
        for run in &self.runs {
            let mut run = run.clone();
            let first = run.first_from(byte)?;
            streams.push(Stream::from(run, first)?);
        }
        Ok(Part {
            manifest: self.manifest,
            merged: Merged::new(streams),
            byte,
        })
    }
}

/// The runs of the new states of objects that the log after the archive continues.
fn replacements(manifest: &Manifest) -> impl Iterator<Item = &RunMeta> {
    let listed = manifest.archive.replacements.iter();
    listed.filter_map(|of| of.run.as_ref())
}

/// Opens a run and reads all of it.
fn verified(
    disk: &dyn Disk,
    dir: &Path,
    run: &RunMeta,
    redo: u64,
    progress: &Progress<'_>,
) -> Result<RunReader> {
    let reader = RunReader::open(disk, dir, run)?;
    reader.verify_length()?;
    let mut told = 0;
    archive::verify(reader.clone(), |head, reached| {
        // A snapshot is of a file that a checkpoint has written, which may be ahead of the log before the checkpoint.
        let end = match head.kind {
            Kind::Commit => redo,
            Kind::Snapshot => redo + LOST_BYTES,
        };
        if head.position.lsn.get() > end {
            return Err(reader.damaged(format_args!("a commit at {}", head.position)));
        }
        if reached >= told + TOLD_BYTES {
            progress.checked(reached - told);
            told = reached;
        }
        Ok(())
    })?;
    progress.checked(run.bytes.saturating_sub(told));
    Ok(reader)
}

/// Some of the objects, in the archive's order. Those of deleted namespaces are left out.
pub(super) struct Part<'a> {
    manifest: &'a Manifest,
    merged: Merged,
    byte: u8,
}

impl Part<'_> {
    /// The next object; the entries of the one before have been passed.
    pub(super) fn object(&mut self) -> Result<Option<ObjectKey>> {
        while let Some(key) = self.merged.key().filter(|key| key.id[0] == self.byte) {
            if !self.manifest.is_deleted(key.namespace) {
                return Ok(Some(key));
            }
            self.merged.skip(key)?;
        }
        Ok(None)
    }

    /// Passes the entries of an object to a function, in order.
    pub(super) fn entries(
        &mut self,
        key: ObjectKey,
        mut take: impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        while let Some(entry) = self.merged.current().filter(|entry| entry.head.key == key) {
            take(&entry)?;
            self.merged.advance()?;
        }
        Ok(())
    }
}
