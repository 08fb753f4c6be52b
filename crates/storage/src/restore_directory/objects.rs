//! Writes the files of the restored objects.

use super::past::{self, Change, Past};
use super::progress::Progress;
use super::source::Source;
use crate::archive::DIR;
use crate::archive::chain::Chain;
use crate::archive::entry::Head;
use crate::archive::image::Image;
use crate::catalog;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::ident::{Life, ObjectKey};
use crate::limits::{PAGE_BYTES, RESTORE_PAGES_IN_MEMORY};
use crate::parallel;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::timing::time;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the module.
pub(super) struct Objects<'a> {
    disk: Arc<dyn Disk>,
    dir: &'a Path,
    source: &'a Source<'a>,
    at: Option<u64>,
    threads: usize,
    progress: &'a Progress<'a>,
    next_scratch: AtomicU64,
}

/// What was written.
#[derive(Default)]
pub(super) struct Built {
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// Objects without a complete state, and why they are unavailable.
    pub(super) incomplete: Vec<(ObjectKey, String)>,
    /// The commits that restore objects to a time, in the archive's order.
    pub(super) changes: Vec<Change>,
}

impl Built {
    /// Of this many objects, no file was written.
    pub(super) fn of_lazy(objects: u64) -> Self {
        Self {
            objects,
            ..Self::default()
        }
    }

    fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.incomplete.extend(other.incomplete);
        self.changes.extend(other.changes);
    }
}

/// The state in which an object is restored.
enum State {
    Absent,
    Present(Head),
    Incomplete,
}

impl<'a> Objects<'a> {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: &'a Path,
        source: &'a Source<'a>,
        at: Option<u64>,
        threads: usize,
        progress: &'a Progress<'a>,
    ) -> Self {
        Self {
            disk,
            dir,
            source,
            at,
            threads,
            progress,
            next_scratch: AtomicU64::new(0),
        }
    }

    /// Writes the files of all objects. They are not synced.
    pub(super) fn build(&self) -> Result<Built> {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let parts = Mutex::new(Vec::new());
        parallel::for_each(self.threads, &bytes, |byte| {
            let built = self.build_part(*byte)?;
            parts.lock().push((*byte, built));
            Ok(())
        })?;
        let mut parts = parts.into_inner();
        parts.sort_by_key(|(byte, _)| *byte);
        let mut all = Built::default();
        for (_, built) in parts {
            all.add(built);
        }
        Ok(all)
    }

    fn build_part(&self, byte: u8) -> Result<Built> {
        let mut pasts = match self.at {
            Some(at) => past::of_part(self.source.part(byte)?, at)?.into_iter(),
            None => Vec::new().into_iter(),
        };
        let mut entries = self.source.part(byte)?;
        let mut built = Built::default();
        let mut image = self.new_image();
        let mut made_dir = PathBuf::new();
        while let Some(key) = entries.object()? {
            let past = pasts.next();
            image.reset()?;
            entries.entries(key, |entry| {
                if past.as_ref().is_none_or(|past| past.includes(&entry.head)) {
                    image.apply(entry)?;
                }
                Ok(())
            })?;
            let state = match image.chain() {
                _ if past.as_ref().is_some_and(Past::has_hole) => State::Incomplete,
                Chain::At(head) if head.life != Life::Ends => State::Present(head),
                Chain::At(_) | Chain::Nothing => State::Absent,
                Chain::Within(_) | Chain::Broken => State::Incomplete,
            };
            if let State::Present(head) = &state {
                let change = past.as_ref().and_then(|past| past.change_to(Some(head)));
                let commit = change.as_ref().map_or(head.commit, |change| change.commit);
                let path = catalog::object_path(self.dir, self.source.manifest, key);
                // Every class is known.
                let path = path.unwrap_or_default();
                if path.parent() != Some(&made_dir) {
                    made_dir = self.make_dir(&path)?;
                }
                image.write(&path, commit)?;
                built.objects += 1;
                built.bytes += u64::from(image.size()) * PAGE_BYTES as u64;
                built.changes.extend(change);
            } else if let State::Incomplete = state {
                built.incomplete.push((key, self.why(key)));
            } else {
                built
                    .changes
                    .extend(past.as_ref().and_then(|past: &Past| past.change_to(None)));
            }
            self.progress.object_is_done();
        }
        Ok(built)
    }

    fn new_image(&self) -> Image {
        let number = self.next_scratch.fetch_add(1, Ordering::Relaxed);
        let scratch = self.dir.join(DIR).join(format!("{number}.scratch"));
        Image::new(
            self.disk.clone(),
            scratch,
            RESTORE_PAGES_IN_MEMORY / self.threads,
        )
    }

    /// Creates the directory of a file, and returns it.
    fn make_dir(&self, path: &Path) -> Result<PathBuf> {
        let dir = path.parent().unwrap_or(self.dir);
        self.disk
            .create_dir_all(dir)
            .map_err(|error| Error::io(format_args!("creating {}", dir.display()), &error))?;
        Ok(dir.to_owned())
    }

    /// Why an object is unavailable whose state in the archive is not complete.
    fn why(&self, key: ObjectKey) -> String {
        let state = match self.at {
            None => "newest state".to_owned(),
            Some(at) => format!("state at {}", time(at)),
        };
        let before = self.source.manifest.quarantine_of(key);
        let why =
            before.map(|quarantine| format!("; before, it was quarantined: {}", quarantine.why));
        format!(
            "its {state} is not complete in the archive that the data directory was restored from{}",
            why.unwrap_or_default()
        )
    }
}
