//! Rebuilds the index of alarms when a saved run of it is damaged or missing, or when none was saved because the directory
//! was restored from its archive.
//!
//! Called while a store is opened, after the log's tail was replayed and before the store is used. The archive's indexes
//! know the alarm of an object as of a commit: if its file ends with that commit, and the log's tail has nothing of it,
//! the object need not be opened. All others are, one at a time, so memory holds the index and one object. The damaged run
//! is kept in the same directory under another name. The manifest lists it until the next checkpoint has saved the whole
//! index, so a crash before that leads to another rebuild.
//!
//! An object whose row cannot be read is itself damaged: this is logged, and the object has no alarm until it is
//! restored. If its file cannot be read, the object is quarantined. If too many files cannot be read, the disk itself
//! is failing, and the store is not opened.

use crate::alarm_entry::AlarmChange;
use crate::alarms::{DamagedRun, dir_of};
use crate::archive::index::{IndexEntry, Newest};
use crate::disk::OpenMode;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{NamespaceNo, ObjectKey};
use crate::limits::MAX_FAILING_FILES;
use crate::overlay::header;
use crate::shared::Shared;
use crate::timing;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Objects between two log lines about progress.
const REPORT: u64 = 100_000;

/// Completes the index; so far it holds only the log's tail.
pub(super) fn rebuild(engine: &Arc<Engine>) -> Result<()> {
    let begun = timing::now();
    let mut rebuild = Rebuild {
        engine,
        objects: 0,
        opened: 0,
        unreadable: 0,
        failing: Vec::new(),
    };
    for object in engine.objects.all() {
        if object.pages().size > 0 {
            rebuild.open(object.key)?;
        }
    }
    let mut archived = engine.archive.newest_entries();
    let mut cold = engine.cold_objects();
    for byte in 0..=u8::MAX {
        let known = archived.with_first_byte(byte);
        rebuild.part(byte, &known, cold.with_first_byte(byte)?)?;
    }
    let Rebuild {
        objects,
        opened,
        unreadable,
        failing,
        ..
    } = rebuild;
    let unreadable = unreadable + failing.len();
    for (key, error) in failing {
        let why = format!("its alarm could not be read when the alarm index was rebuilt: {error}");
        engine
            .objects
            .with(key, |_, pages| engine.objects.quarantine(key, pages, why))?;
    }
    engine.alarms.save_whole();
    tracing::info!(
        objects,
        opened,
        unreadable,
        alarms = engine.alarms.counts().pending,
        seconds = begun.elapsed().as_secs_f64(),
        "built the alarm index from the archive and the objects"
    );
    Ok(())
}

impl DamagedRun {
    /// As [`rebuild`], and keeps the run.
    pub(super) fn rebuild(&self, engine: &Arc<Engine>) -> Result<()> {
        tracing::error!(
            path = %self.path.display(), why = %self.why,
            "a saved run of the alarm index is damaged or missing: rebuilding the index from the objects, which takes a while; \
             check the disk"
        );
        rebuild(engine)?;
        self.keep_aside(engine);
        Ok(())
    }

    /// Renames the run so that it is not removed.
    fn keep_aside(&self, engine: &Engine) {
        let aside = aside(&self.path);
        let Shared { disk, dir, .. } = &*engine.shared;
        let renamed = disk
            .rename(&self.path, &aside)
            .and_then(|()| disk.sync_dir(&dir_of(dir)));
        match renamed {
            Ok(()) => tracing::warn!(path = %aside.display(), "kept the damaged run"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "cannot rename the damaged run to keep it");
            }
        }
    }
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    name.into()
}

/// A rebuild under way.
struct Rebuild<'a> {
    engine: &'a Arc<Engine>,
    objects: u64,
    opened: u64,
    /// Objects without an alarm because it could not be read.
    unreadable: usize,
    /// Objects whose files cannot be read.
    failing: Vec<(ObjectKey, Error)>,
}

impl Rebuild<'_> {
    /// Loads the alarms of the objects whose ids begin with this byte, and that are not in memory: those that are cold, and
    /// those that have files.
    fn part(
        &mut self,
        byte: u8,
        archived: &FxHashMap<ObjectKey, IndexEntry>,
        cold: BTreeMap<ObjectKey, IndexEntry>,
    ) -> Result<()> {
        let shared = self.engine.shared.clone();
        for (key, cold) in cold {
            match cold.newest.alarm.change() {
                Some(change) => {
                    self.count();
                    self.engine.alarms.load(key, change);
                }
                None => self.open(key)?,
            }
        }
        let namespaces = shared.catalog.current().namespaces.len() as u32;
        for namespace in (1..=namespaces).map(NamespaceNo) {
            let Some(dir) = shared.catalog.namespace_dir(namespace) else {
                continue;
            };
            let part = dir.join(format!("{byte:02x}"));
            let names = shared
                .disk
                .list(&part)
                .map_err(|error| Error::io(format_args!("reading {}", part.display()), &error))?;
            for name in names {
                let id = name.strip_suffix(".sqlite").and_then(ObjectKey::parse_id);
                let key = id.map(|id| ObjectKey { namespace, id });
                let Some(key) = key.filter(|key| self.engine.objects.find(*key).is_none()) else {
                    continue;
                };
                let known = archived.get(&key);
                match known.and_then(|known| self.known_alarm(&known.newest, &part.join(name))) {
                    Some(change) => {
                        self.count();
                        self.engine.alarms.load(key, change);
                    }
                    None => self.open(key)?,
                }
            }
        }
        Ok(())
    }

    /// The alarm of an object according to the archive, if that is as new as its file. `None` if it must be opened.
    fn known_alarm(&self, newest: &Newest, path: &Path) -> Option<AlarmChange> {
        let change = newest.alarm.change()?;
        let file = self
            .engine
            .shared
            .disk
            .open(path, OpenMode::Existing)
            .ok()?;
        let mut head = [0; header::BYTES];
        let is_read = file.read_at(&mut head, 0).ok()? == head.len();
        let is_newest =
            header::commit(&head) == newest.commit && header::size(&head) == newest.pages;
        (is_read && header::is_database(&head) && is_newest).then_some(change)
    }

    fn count(&mut self) {
        self.objects += 1;
        if self.objects.is_multiple_of(REPORT) {
            tracing::info!(objects = self.objects, "rebuilding the alarm index");
        }
    }

    /// Loads the alarm from the object's rows.
    fn open(&mut self, key: ObjectKey) -> Result<()> {
        self.count();
        self.opened += 1;
        let read = self
            .engine
            .open_database(key)
            .and_then(|db| db.alarm_entry());
        match read {
            Ok(Some(entry)) => self.engine.alarms.load(key, AlarmChange::Set(entry)),
            Ok(None) => self.engine.alarms.load(key, AlarmChange::Cleared),
            Err(error) if error.object() == Some(key) => {
                if self.failing.len() == MAX_FAILING_FILES {
                    return Err(Error::new(
                        ErrorKind::Io,
                        format!(
                            "the alarm index cannot be rebuilt: more than {MAX_FAILING_FILES} object files cannot be \
                             read; check the disk. The last error: {error}"
                        ),
                    ));
                }
                self.failing.push((key, error));
            }
            // The error may be transient and must not be mistaken for "no alarm".
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::Busy
                ) =>
            {
                return Err(error);
            }
            Err(error) => {
                self.unreadable += 1;
                tracing::error!(
                    object = %key, %error,
                    "an object's alarm cannot be read: the object has no alarm until it is restored"
                );
            }
        }
        Ok(())
    }
}
