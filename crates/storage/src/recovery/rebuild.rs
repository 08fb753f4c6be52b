//! Rebuilds the index from the objects' rows when a saved run is damaged or missing.
//!
//! Called while a store is opened, after the log's tail was replayed and before the store is used. Objects are
//! opened one at a time, so memory holds the index and one object. The damaged run is kept in the same directory under
//! another name. The manifest lists it until the next checkpoint has saved the whole index, so a crash before that
//! leads to another rebuild.
//!
//! An object whose row cannot be read is itself damaged: this is logged, and the object has no alarm until it is
//! restored. If its file cannot be read, the object is quarantined. If too many files cannot be read, the disk itself
//! is failing, and the store is not opened.

use crate::alarm_entry::{AlarmChange, AlarmEntry};
use crate::alarms::{DamagedRun, dir_of};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{NamespaceNo, ObjectKey};
use crate::limits::MAX_FAILING_FILES;
use crate::shared::Shared;
use crate::timing;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Objects between two log lines about progress.
const REPORT: u64 = 100_000;

impl DamagedRun {
    /// Completes the index from the rows; so far it holds only the log's tail.
    pub(super) fn rebuild(&self, engine: &Arc<Engine>) -> Result<()> {
        tracing::error!(
            path = %self.path.display(), why = %self.why,
            "a saved run of the alarm index is damaged or missing: rebuilding the index from the objects, which takes a while; \
             check the disk"
        );
        let begun = timing::now();
        let (mut objects, mut unreadable) = (0_u64, 0_u64);
        let mut failing = Vec::new();
        let namespaces = engine.shared.catalog.current().namespaces.len() as u32;
        for namespace in (1..=namespaces).map(NamespaceNo) {
            engine.each_object(namespace, |key| {
                objects += 1;
                if objects.is_multiple_of(REPORT) {
                    tracing::info!(objects, "rebuilding the alarm index");
                }
                match entry(engine, key) {
                    Ok(Some(entry)) => engine.alarms.load(key, AlarmChange::Set(entry)),
                    Ok(None) => engine.alarms.load(key, AlarmChange::Cleared),
                    Err(error) if error.object() == Some(key) => {
                        if failing.len() == MAX_FAILING_FILES {
                            return Err(Error::new(
                                ErrorKind::Io,
                                format!(
                                    "the alarm index cannot be rebuilt: more than {MAX_FAILING_FILES} object files cannot be \
                                     read; check the disk. The last error: {error}"
                                ),
                            ));
                        }
                        failing.push((key, error));
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
                        unreadable += 1;
                        tracing::error!(
                            object = %key, %error,
                            "an object's alarm cannot be read: the object has no alarm until it is restored"
                        );
                    }
                }
                Ok(())
            })?;
        }
        unreadable += failing.len() as u64;
        for (key, error) in failing {
            let why =
                format!("its alarm could not be read when the alarm index was rebuilt: {error}");
            engine
                .objects
                .with(key, |_, pages| engine.objects.quarantine(key, pages, why))?;
        }
        engine.alarms.save_whole();
        self.keep_aside(engine);
        tracing::warn!(
            objects,
            unreadable,
            alarms = engine.alarms.counts().pending,
            seconds = begun.elapsed().as_secs_f64(),
            "the alarm index was rebuilt from the objects"
        );
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

fn entry(engine: &Arc<Engine>, key: ObjectKey) -> Result<Option<AlarmEntry>, Error> {
    engine.open_database(key)?.alarm_entry()
}
