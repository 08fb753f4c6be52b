//! Quarantine: objects that are unavailable until they are repaired.
//!
//! An object is quarantined when its file and the log do not match, or when checkpoints fail to write its file. From
//! then on its connection rejects every call, and the object cannot be opened; other objects are not affected.
//!
//! Acknowledged changes must outlive the log, which is recycled after the next checkpoint. Before that checkpoint
//! publishes its redo position, it therefore saves the pages that the object's file lacks as a run in the directory
//! `quarantine`, and the manifest lists the object, the reason and the run. Until this has succeeded, redo does not
//! advance, and the log is kept.
//!
//! A run in this directory that the manifest does not list is never read, written or removed: it may be a leftover of a
//! crash, or hold pages that a repair did not use. [`crate::repair`] ends a quarantine.

use crate::archive::entry::{Head, Kind};
use crate::archive::index::{KnownAlarm, NO_BASE, Newest};
use crate::archive::run::{RunReader, RunWriter};
use crate::archive::snapshot;
use crate::archive::stream::Stream;
use crate::delta;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, Life, ObjectKey, Page, ZERO_PAGE};
use crate::manifest::{Continues, RunMeta, Saved};
use crate::overlay::Object;
use crate::shared::Shared;
use rustc_hash::FxHashMap;
use std::path::PathBuf;

/// The directory's name in the data directory.
const DIR: &str = "quarantine";

/// Saved pages are kept for a long time, so slow compression is acceptable.
const COMPRESSION: i32 = 3;

/// An object that is unavailable until it is repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuarantinedObject {
    /// The object.
    pub key: ObjectKey,
    /// Why it is unavailable.
    pub why: String,
}

/// The error for a quarantined object.
pub(crate) fn refusal(key: ObjectKey, why: &str) -> Error {
    Error::damaged(format!(
        "the object {key} is quarantined: {why}. Nothing is deleted, and other objects are not affected. Restore it \
         from its history with `abide restore`, or accept the content of its file with `abide repair --accept`"
    ))
}

/// The pages that an object's file lacked when it was quarantined.
#[derive(Default)]
pub(crate) struct SavedPages {
    pub(crate) pages: FxHashMap<u32, Box<Page>>,
    /// The size of the database with them.
    pub(crate) size: u32,
    pub(crate) commit: CommitNo,
}

/// Saves the pages that an object's file lacks as a run, durably. `None` if it lacks none. The object is already
/// quarantined, so its pages do not change, and they are durable in the log.
pub(crate) fn save(shared: &Shared, object: &Object) -> Result<Option<Saved>> {
    let (mut numbers, head, continues) = {
        let pages = object.pages();
        let numbers: Vec<u32> = pages.overlay.keys().copied().collect();
        let head = Head {
            key: object.key,
            commit: pages.commit,
            position: object.position(pages.newest),
            database_pages: pages.size,
            unix_millis: shared.unix_millis(),
            entries: 0,
            kind: Kind::Commit,
            life: Life::Continues,
            replaces: false,
            first: true,
            last: false,
        };
        // An object that never had a complete file is entirely in these pages, unless the log has only changes of it.
        let is_whole = pages.tail.map_or(!pages.has_file, |tail| tail.is_whole);
        let first = pages.tail.map(|tail| tail.first);
        let continues = match first {
            _ if is_whole => Continues::Nothing,
            Some(first) => Continues::From(first.0),
            None => Continues::File,
        };
        (numbers, head, continues)
    };
    if numbers.is_empty() {
        return Ok(None);
    }
    numbers.sort_unstable();
    let meta = RunMeta {
        number: next_number(shared)?,
        level: 0,
        base: false,
        from: 0,
        to: head.position.lsn.0,
        first_millis: u64::MAX,
        last_millis: 0,
        objects: 0,
        bytes: 0,
    };
    let dir = shared.dir.join(DIR);
    let path = path_of(shared, &meta);
    let manifest = shared.catalog.current();
    let mut writer = RunWriter::create(shared.disk.clone(), &manifest, &dir, meta, COMPRESSION, 1)?;
    snapshot::add_pages(&mut writer, head, numbers, |page_no| {
        let pages = object.pages();
        let page = pages.overlay.get(&page_no);
        Ok(page.map_or(ZERO_PAGE, |page| *page.image))
    })?;
    writer.end_object(Newest {
        commit: head.commit,
        pages: head.database_pages,
        alarm: KnownAlarm::Unknown,
        since_base: NO_BASE,
    });
    let run = writer.finish().inspect_err(|_| {
        // The next checkpoint writes another one.
        let _ = shared.disk.remove(&path);
    })?;
    Ok(Some(Saved { run, continues }))
}

/// The number of the next run: one that no file uses, listed or not. Creates the directory if necessary.
pub(crate) fn next_number(shared: &Shared) -> Result<u64> {
    let dir = shared.dir.join(DIR);
    let failed = |error| Error::io(format_args!("reading {}", dir.display()), &error);
    shared.disk.create_dir_all(&dir).map_err(failed)?;
    let names = shared.disk.list(&dir).map_err(failed)?;
    let numbers = names.iter().filter_map(|name| {
        let digits = name.strip_suffix(".run")?;
        u64::from_str_radix(digits, 16).ok()
    });
    Ok(numbers.max().map_or(1, |newest| newest + 1))
}

/// Loads the pages that [`save`] has saved.
pub(crate) fn load(shared: &Shared, key: ObjectKey, run: &RunMeta) -> Result<SavedPages> {
    let dir = shared.dir.join(DIR);
    let mut reader = RunReader::open(&*shared.disk, &dir, run)?;
    let index = reader.find(key)?;
    let index = index.ok_or_else(|| reader.damaged("the object is not in it"))?;
    let mut saved = SavedPages::default();
    let mut stream = Stream::object(reader.clone(), index)?;
    while let Some(entry) = stream.current() {
        let mut rest = entry.payload;
        for _ in 0..entry.head.entries {
            let (change, more) =
                delta::Entry::decode(rest).ok_or_else(|| reader.damaged("a page entry"))?;
            rest = more;
            let mut page = Box::new(ZERO_PAGE);
            change.apply(&mut page);
            saved.pages.insert(change.page_no, page);
        }
        saved.size = entry.head.database_pages;
        saved.commit = entry.head.commit;
        stream.advance()?;
    }
    Ok(saved)
}

/// Removes a run that the manifest no longer lists, because the object's file has its pages.
pub(crate) fn forget(shared: &Shared, run: &RunMeta) {
    let path = path_of(shared, run);
    if let Err(error) = shared.disk.remove(&path) {
        tracing::warn!(%error, path = %path.display(), "cannot remove unneeded saved pages");
    }
}

/// Where a run is.
pub(crate) fn path_of(shared: &Shared, run: &RunMeta) -> PathBuf {
    let name = RunMeta::file_name(run.number);
    shared.dir.join(DIR).join(name)
}

/// Returns whether an error means that an object needs a repair.
pub(crate) fn needs_repair(error: &Error, key: ObjectKey) -> bool {
    error.kind() == ErrorKind::Damaged || error.object() == Some(key)
}
