//! Repair: ends a quarantine.
//!
//! 1. Take a checkpoint. Afterwards the quarantine is in the manifest, the pages that the file lacks are saved
//!    ([`crate::quarantine`]), and the log's tail contains nothing of the object.
//! 2. Write the object's new database to a new file in the same directory, and sync it. Its commit number leaves a gap
//!    above all earlier ones, so that no earlier commit is mistaken for its predecessor.
//! 3. Publish the name to which the present file will be renamed.
//! 4. Rename the present file to that name and the new one to its place, and sync the directory.
//! 5. Archive the new state as a snapshot: the object's history continues from there.
//! 6. Open the database and commit. The record updates the alarm index with the new state. Wait until it is durable.
//! 7. Publish the end of the quarantine.
//!
//! A crash at any point leaves the object quarantined or repaired. Another repair starts over from the old file, whose
//! name is in the manifest. Nothing is lost: the old file stays in the directory, and saved pages that the repair did
//! not use stay in `quarantine`.

use crate::archive::image::Image;
use crate::bookmark::Bookmark;
use crate::database::ObjectDb;
use crate::disk::{DiskFile, OpenMode, sync_names};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, ObjectKey, Page, ZERO_PAGE};
use crate::limits::{FILE_ATTEMPTS, MAX_OBJECT_BYTES, MAX_OBJECT_RESERVE_BYTES, PAGE_BYTES};
use crate::manifest::{Aside, Continues, Quarantine};
use crate::overlay::header;
use crate::pagefile::PageFile;
use crate::quarantine::{self, SavedPages};
use crate::stored::Folder;
use crate::timeline::{Afterwards, StoredCause};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Bytes that are written to the new file at a time.
const WRITE_BYTES: usize = 64 * PAGE_BYTES;

/// The new state of a quarantined object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// The state at a bookmark, from its history.
    Restore(Bookmark),
    /// The content of its file, plus the pages that were saved for it if they continue the file. Rejected if that is
    /// not a valid database.
    Accept,
    /// An empty object, as if it had never been written.
    Anew,
}

/// The outcome of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// The bookmark of the object's new state.
    pub bookmark: Bookmark,
    /// The old file, and saved pages that were not used.
    pub kept: Vec<PathBuf>,
}

/// The source of the new database.
enum Source {
    Image(Image),
    File(FileAndPages),
    Template(Vec<Arc<Page>>),
}

impl Source {
    fn size(&self) -> u32 {
        match self {
            Self::Image(image) => image.size(),
            Self::File(file) => file.size,
            Self::Template(pages) => pages.len() as u32,
        }
    }

    fn page(&self, page_no: u32) -> Result<Page> {
        match self {
            Self::Image(image) => image.page(page_no),
            Self::File(file) => file.page(page_no),
            Self::Template(pages) => Ok(*pages[page_no as usize - 1]),
        }
    }

    /// Returns whether the saved pages are included.
    fn has_saved_pages(&self) -> bool {
        matches!(self, Self::File(file) if !file.saved.pages.is_empty())
    }
}

/// The content of an object's file, and the pages that continue it.
struct FileAndPages {
    file: Option<Arc<dyn DiskFile>>,
    path: PathBuf,
    saved: SavedPages,
    size: u32,
}

impl FileAndPages {
    fn page(&self, page_no: u32) -> Result<Page> {
        if let Some(page) = self.saved.pages.get(&page_no) {
            return Ok(**page);
        }
        let mut page = ZERO_PAGE;
        if let Some(file) = &self.file {
            let offset = u64::from(page_no - 1) * PAGE_BYTES as u64;
            let read = file.read_at(&mut page, offset);
            read.map_err(|error| reading(&self.path, &error))?;
        }
        Ok(page)
    }
}

/// The paths of a repair.
struct Paths {
    /// The object's file.
    path: PathBuf,
    /// The new file that will replace it.
    new: PathBuf,
    /// The old file's current path; `None` if there was no file.
    before: Option<PathBuf>,
    /// The name for the old file, and whether it is already in the manifest.
    aside: (Aside, bool),
}

impl Engine {
    /// See [`crate::Store::repair`].
    pub(crate) fn repair(
        self: &Arc<Self>,
        key: ObjectKey,
        how: Repair,
        afterwards: Afterwards,
    ) -> Result<Repaired> {
        let _one = self.repairs.lock();
        let repaired = self.repair_alone(key, how, afterwards);
        repaired.inspect_err(|error| self.shared.note_failure(error))
    }

    fn repair_alone(
        self: &Arc<Self>,
        key: ObjectKey,
        how: Repair,
        afterwards: Afterwards,
    ) -> Result<Repaired> {
        self.must_own_all("repair an object")?;
        self.must_need_repair(key, how)?;
        let quarantine = self.settle(key)?;
        let saved = match &quarantine.pages {
            Some(saved) => quarantine::load(&self.shared, key, &saved.run),
            None => Ok(SavedPages::default()),
        };
        let mut known = vec![self.archive.newest_commit(key)?];
        known.extend(saved.as_ref().ok().map(|saved| saved.commit));
        let paths = self.paths(key, &quarantine)?;
        known.extend(
            paths
                .before
                .as_deref()
                .and_then(|path| self.commit_in(path)),
        );
        known.extend(self.commit_in(&paths.path));
        let later = |a: CommitNo, b: CommitNo| if b.is_after(a) { b } else { a };
        let commit = known.into_iter().fold(CommitNo(0), later).next();

        let source = match how {
            Repair::Restore(to) => Source::Image(self.image_at(key, &to)?),
            Repair::Accept => {
                Source::File(self.file_and_pages(key, &paths, &quarantine, saved?)?)
            }
            Repair::Anew => Source::Template(self.template.clone()),
        };
        self.write_new_file(&paths.new, &source, commit)?;
        let mut kept: Vec<PathBuf> = self.exchange(key, &paths)?.into_iter().collect();
        self.objects.is_miscounted(Folder::of(key));
        self.recount_quarantined();
        let bookmark = self.begin_anew(key, how, commit, afterwards)?;
        self.shared.publish(|manifest| {
            manifest.quarantined.remove(&key.to_string());
            manifest.archive.lapse();
        })?;
        self.archive.sweep_again();
        if let Some(saved) = &quarantine.pages {
            if source.has_saved_pages() {
                quarantine::forget(&self.shared, &saved.run);
            } else {
                kept.push(quarantine::path_of(&self.shared, &saved.run));
            }
        }
        tracing::warn!(object = %key, ?how, %bookmark, ?kept, "repaired a quarantined object");
        Ok(Repaired { bookmark, kept })
    }

    /// Quarantines an object that has a history, but neither a file nor commits in the log: its file was deleted. Not
    /// checked when objects are opened, because each new object would then cost a search of the archive.
    pub(crate) fn quarantine_if_lost(&self, key: ObjectKey) -> Result<()> {
        let is_absent = || Ok(self.present_commit(key)? == Some(CommitNo(0)));
        // What is not archived yet may have deleted it.
        if !is_absent()? || !self.archive.has_object(key)? || self.archive_everything().is_err() {
            return Ok(());
        }
        if !is_absent()? || !self.archive.has_object(key)? {
            return Ok(());
        }
        self.objects.with(key, |_, pages| {
            if pages.size == 0 && !pages.open && pages.quarantined.is_none() {
                let why = "its file is missing, although the archive has its history".to_owned();
                self.objects.quarantine(key, pages, why);
            }
        })
    }

    /// Rejects an object that is usable. An object that cannot be opened because of its file, or whose database SQLite
    /// finds damaged, is quarantined now.
    fn must_need_repair(self: &Arc<Self>, key: ObjectKey, how: Repair) -> Result<()> {
        if self.shared.catalog.current().quarantine_of(key).is_some() {
            return Ok(());
        }
        self.quarantine_if_lost(key)?;
        let why = match self.open_database(key) {
            Ok(db) => match fault_in(&db)? {
                // Accepting it would change nothing, and the object may still be partly usable.
                Some(fault) if how == Repair::Accept => return Err(unsound(key, &fault)),
                Some(fault) => format!("its database is damaged: {fault}"),
                None => {
                    return Err(Error::input(format!(
                        "the object {key} is not quarantined: use `abide restore` to restore an earlier state"
                    )));
                }
            },
            Err(error) if quarantine::needs_repair(&error, key) => error.to_string(),
            Err(error) => return Err(error),
        };
        self.objects.with(key, |_, pages| {
            if pages.quarantined.is_none() {
                self.objects.quarantine(key, pages, why);
            }
        })
    }

    /// Takes a checkpoint, after which the manifest lists the object and the log's tail contains nothing of it.
    fn settle(&self, key: ObjectKey) -> Result<Quarantine> {
        // An object that holds redo back gets no further attempt.
        for _ in 0..=FILE_ATTEMPTS {
            let taken = self.checkpoint();
            let newest = self.objects.find(key).map(|object| {
                let pages = object.pages();
                if pages.open {
                    return Err(Error::refused(format!(
                        "the object {key} is open: close it before repairing it"
                    )));
                }
                Ok(pages.newest)
            });
            let newest = newest.transpose()?.unwrap_or_default();
            let manifest = self.shared.catalog.current();
            if let Some(quarantine) = manifest.quarantine_of(key)
                && manifest.redo() >= newest
            {
                return Ok(quarantine.clone());
            }
            match taken {
                Err(error) if error.object().is_none() => return Err(error),
                _ => {}
            }
        }
        Err(Error::refused(format!(
            "the object {key} cannot be repaired while checkpoints fail: retry; the program's log says why they fail"
        )))
    }

    /// Finds the old file. An interrupted repair may have renamed it.
    fn paths(&self, key: ObjectKey, quarantine: &Quarantine) -> Result<Paths> {
        let path = self.shared.catalog.object_path(key).ok_or_else(|| {
            Error::input(format!("there is no namespace number {}", key.namespace.0))
        })?;
        let dir = path.parent().unwrap_or(Path::new("."));
        let names = self.shared.disk.list(dir);
        let names = names.map_err(|error| reading(dir, &error))?;
        let has = |path: &Path| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| names.iter().any(|known| **known == *name))
        };
        let hex = key.id_hex();
        let (before, aside) = match &quarantine.aside {
            None if has(&path) => {
                let taken = |number: &u32| has(&dir.join(damaged_name(&hex, *number)));
                let number = (1..u32::MAX).find(|number| !taken(number));
                let number = number.unwrap_or(u32::MAX);
                let aside = Aside::File(damaged_name(&hex, number));
                (Some(path.clone()), (aside, false))
            }
            None => (None, (Aside::Nothing, false)),
            Some(Aside::Nothing) => (None, (Aside::Nothing, true)),
            Some(Aside::File(name)) => {
                let renamed = dir.join(name);
                let before = if has(&renamed) { renamed } else { path.clone() };
                (Some(before), (Aside::File(name.clone()), true))
            }
        };
        Ok(Paths {
            new: dir.join(format!("{hex}.sqlite.repair")),
            path,
            before,
            aside,
        })
    }

    /// The commit number in a file; `None` if it cannot be read.
    fn commit_in(&self, path: &Path) -> Option<CommitNo> {
        let file = self.shared.disk.open(path, OpenMode::Existing).ok()?;
        let mut head = [0; header::BYTES];
        let read = file.read_at(&mut head, 0).ok()?;
        let whole = read == head.len() && header::is_database(&head);
        whole.then(|| header::commit(&head))
    }

    /// The content of the old file, plus the saved pages if they continue it.
    fn file_and_pages(
        &self,
        key: ObjectKey,
        paths: &Paths,
        quarantine: &Quarantine,
        saved: SavedPages,
    ) -> Result<FileAndPages> {
        let open = |path: &Path| match self.shared.disk.open(path, OpenMode::Existing) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => file.map(Some).map_err(|error| reading(path, &error)),
        };
        let path = paths.before.clone().unwrap_or_else(|| paths.path.clone());
        let file = match &paths.before {
            Some(before) => open(before)?,
            None => None,
        };
        let mut head = [0; header::BYTES];
        if let Some(file) = &file {
            let read = file.read_at(&mut head, 0);
            read.map_err(|error| reading(&path, &error))?;
        }
        let in_file = header::commit(&head);
        let continues = match quarantine.pages.as_ref().map(|saved| &saved.continues) {
            None => false,
            Some(Continues::Nothing) => true,
            Some(Continues::File) => file.is_some(),
            Some(Continues::From(first)) => {
                let gap = CommitNo(*first).is_after(in_file.next());
                !gap && !in_file.is_after(saved.commit)
            }
        };
        let saved = if continues {
            saved
        } else {
            SavedPages::default()
        };
        let size = if continues {
            saved.size
        } else {
            header::size(&head)
        };
        let refused = |why: &str| {
            Err(Error::refused(format!(
                "the object {key} has no content to accept: {why}. Restore it from its history with \
                 `abide restore`, or reset it with `abide repair --anew`"
            )))
        };
        if quarantine.ended {
            return refused("it was deleted");
        }
        if !continues && file.is_none() {
            return refused("it has no file");
        }
        let most = MAX_OBJECT_BYTES + MAX_OBJECT_RESERVE_BYTES;
        if size == 0 || u64::from(size) * PAGE_BYTES as u64 > most {
            return refused("its file is not a database");
        }
        Ok(FileAndPages {
            file,
            path,
            saved,
            size,
        })
    }

    /// Writes a whole database, durably.
    fn write_new_file(&self, path: &Path, source: &Source, commit: CommitNo) -> Result<()> {
        let disk = &self.shared.disk;
        let failed =
            |error: io::Error| Error::io(format_args!("writing {}", path.display()), &error);
        if let Some(dir) = path.parent() {
            disk.create_dir_all(dir).map_err(failed)?;
        }
        let file = disk.open(path, OpenMode::Create).map_err(failed)?;
        let write = || {
            // An interrupted repair may have left a file.
            file.set_len(0).map_err(failed)?;
            let (mut bytes, mut at) = (Vec::with_capacity(WRITE_BYTES), 0);
            for page_no in 1..=source.size() {
                let mut page = source.page(page_no)?;
                if page_no == 1 {
                    header::set_commit(&mut page, commit, source.size());
                }
                bytes.extend_from_slice(&page);
                if bytes.len() >= WRITE_BYTES || page_no == source.size() {
                    file.write_at(&bytes, at).map_err(failed)?;
                    at += bytes.len() as u64;
                    bytes.clear();
                }
            }
            file.sync()
                .map_err(|error| Error::sync(format_args!("syncing {}", path.display()), &error))
        };
        write().inspect_err(|_| {
            // An incomplete database is useless, and the disk may be full; the next repair truncates it.
            let _ = disk.remove(path);
        })
    }

    /// Moves the new file into the place of the present one, which stays in the directory. Returns the present one's
    /// new path.
    fn exchange(&self, key: ObjectKey, paths: &Paths) -> Result<Option<PathBuf>> {
        let disk = &self.shared.disk;
        let dir = paths.path.parent().unwrap_or(Path::new("."));
        let (aside, published) = &paths.aside;
        if !published {
            self.shared.publish(|manifest| {
                if let Some(quarantine) = manifest.quarantined.get_mut(&key.to_string()) {
                    quarantine.aside = Some(aside.clone());
                }
            })?;
        }
        // It is unknown whether a rename that fails for any reason but space has happened: the next repair finds out.
        let rename = |from: &Path, to: &Path| {
            let renamed = disk.rename(from, to);
            renamed.map_err(|error| Error::io(format_args!("renaming {}", from.display()), &error))
        };
        let kept = match aside {
            Aside::File(name) => Some(dir.join(name)),
            Aside::Nothing => None,
        };
        if let Some(kept) = &kept
            && paths.before.as_ref() == Some(&paths.path)
        {
            rename(&paths.path, kept)?;
        }
        rename(&paths.new, &paths.path)?;
        // The directory may be as new as the file.
        for dir in paths.path.ancestors().skip(1).take(3) {
            sync_names(&**disk, dir)?;
        }
        Ok(kept)
    }

    /// Opens the new database, begins its history, and makes its first commit. Durable when it returns.
    fn begin_anew(
        self: &Arc<Self>,
        key: ObjectKey,
        how: Repair,
        commit: CommitNo,
        afterwards: Afterwards,
    ) -> Result<Bookmark> {
        // The manifest still rejects all others.
        self.objects.renew(key)?;
        let file = self.objects.open_for_repair(key)?;
        let file = Rc::new(PageFile::new(self.clone(), file));
        let state = file.bookmark();
        debug_assert_eq!(state.commit, commit);
        if self.shared.catalog.current().archive.archived.is_some() {
            let archived = {
                let _paused = self.checkpointer.pause()?;
                self.archiver.archive_present(key, &state)
            };
            if let Err(error) = archived {
                if self.shared.log.failed() {
                    return Err(error);
                }
                tracing::warn!(object = %key, %error, "the history of a repaired object continues with its next snapshot");
            }
        }
        let db = ObjectDb::open(file, self.shared.options.cache_kib)?;
        if how == Repair::Accept {
            must_be_sound(key, &db)?;
        }
        // Its commit number is above all earlier ones, so the new timeline's id is, too.
        let cause = match how {
            Repair::Restore(to) => StoredCause::Restored { from: state, to },
            Repair::Accept => StoredCause::Restored {
                from: state,
                to: state,
            },
            Repair::Anew => StoredCause::Created,
        };
        db.commit_restored(None, state, cause, afterwards)?;
        self.wait_durable(db.newest())?;
        Ok(db.bookmark())
    }
}

/// The new name of an object's old file.
fn damaged_name(hex: &str, number: u32) -> String {
    format!("{hex}.sqlite.damaged-{number}")
}

fn reading(path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("reading {}", path.display()), error)
}

/// Rejects a database of unknown integrity if SQLite finds a fault in it.
fn must_be_sound(key: ObjectKey, db: &ObjectDb) -> Result<()> {
    match fault_in(db)? {
        None => Ok(()),
        Some(fault) => Err(unsound(key, &fault)),
    }
}

/// The first fault that SQLite finds in a database.
pub(crate) fn fault_in(db: &ObjectDb) -> Result<Option<String>> {
    let said = db
        .exec("PRAGMA integrity_check(1)", ())
        .and_then(|rows| rows.all::<String>());
    match said {
        Ok(said) if said == ["ok"] => Ok(None),
        Ok(said) => Ok(Some(said.join("; "))),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(Some("it is malformed".to_owned())),
        Err(error) => Err(error),
    }
}

fn unsound(key: ObjectKey, fault: &str) -> Error {
    Error::refused(format!(
        "the object {key} does not have a valid database ({fault}): restore it from its history with `abide \
         restore`, or reset it with `abide repair --anew`; nothing was deleted"
    ))
}
