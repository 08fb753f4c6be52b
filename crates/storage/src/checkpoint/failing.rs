//! Objects whose files cannot be written: they are tried again, or quarantined, and then their pages are saved elsewhere.

use super::Checkpointer;
use crate::disk::sync_names;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{FILE_ATTEMPTS, MAX_FAILING_FILES};
use crate::manifest::{Manifest, Quarantine};
use crate::overlay::Object;
use crate::quarantine;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A quarantined object, and its new entry in the manifest; `None` if the entry is unchanged.
pub(super) type Listed = (Arc<Object>, Option<Quarantine>);

/// Adds quarantined objects to the manifest's list.
pub(super) fn list(manifest: &mut Manifest, quarantined: &[Listed]) {
    for (object, entry) in quarantined {
        if let Some(entry) = entry {
            let key = object.key.to_string();
            manifest.quarantined.insert(key, entry.clone());
        }
    }
}

impl Checkpointer {
    /// Returns whether commits wait, or soon would, because the log has reached its limit.
    fn commits_need_the_log(&self) -> bool {
        let shared = &self.shared;
        let next = self.segments.next_bytes(shared.needed_segment_bytes());
        let filled = shared.kept_log() + shared.log.room() + next;
        shared.log_is_full() || (shared.log.wants_segment(1) && filled > shared.log_bound())
    }

    /// Retries or quarantines the objects whose files cannot be written. Returns the error of one that is retried.
    pub(super) fn hold_back_or_quarantine(
        &self,
        failing: Vec<(Arc<Object>, Error)>,
    ) -> Result<Option<Error>> {
        if failing.len() > MAX_FAILING_FILES {
            let (_, first) = &failing[0];
            return Err(Error::new(
                ErrorKind::Io,
                format!(
                    "the files of {} objects cannot be written, too many to quarantine: check the disk. The first error: {first}",
                    failing.len()
                ),
            ));
        }
        let no_time = self.commits_need_the_log() || self.objects.overlay_is_full();
        let mut held_back = None;
        for (object, error) in failing {
            let mut pages = object.pages();
            pages.failed_writes += 1;
            // The next attempt reopens it.
            self.objects.close_file(&object, &mut pages);
            if pages.failed_writes >= FILE_ATTEMPTS || no_time {
                let why = format!("a checkpoint could not write its file: {error}");
                self.objects.quarantine(object.key, &mut pages, why);
            } else {
                tracing::error!(
                    object = %object.key, %error, attempt = pages.failed_writes,
                    "cannot write an object's file: keeping the log for it until the next checkpoint tries again"
                );
                held_back = Some(error);
            }
        }
        Ok(held_back)
    }

    /// Saves the pages that the files of quarantined objects lack.
    pub(super) fn save_quarantined(&self) -> Result<Vec<Listed>> {
        let manifest = self.shared.catalog.current();
        let mut listed = Vec::new();
        for object in self.objects.all() {
            let (why, newest, ended) = {
                let pages = object.pages();
                match &pages.quarantined {
                    Some(why) => (why.clone(), pages.newest, pages.ended),
                    None => continue,
                }
            };
            let known = manifest.quarantine_of(object.key);
            // Pages written by an interrupted repair are ignored.
            if known.is_some_and(|known| known.aside.is_some()) {
                listed.push((object, known.cloned()));
                continue;
            }
            self.shared.log.wait_durable(newest, !self.shared.threads)?;
            self.put_in_place_durably(&object)?;
            let saved = quarantine::save(&self.shared, &object)?;
            let pages = saved.or_else(|| known.and_then(|known| known.pages.clone()));
            let entry = Quarantine {
                pages,
                ended: ended || known.is_some_and(|known| known.ended),
                ..Quarantine::new(why)
            };
            let changed = known != Some(&entry);
            listed.push((object, changed.then_some(entry)));
        }
        Ok(listed)
    }

    /// Gives a quarantined object the file that its saved pages continue.
    fn put_in_place_durably(&self, object: &Object) -> Result<()> {
        let mut pages = object.pages();
        if pages.replaced.is_none() {
            return Ok(());
        }
        self.put_in_place(object, &mut pages)?;
        drop(pages);
        let dirs = object.path.ancestors().skip(1).take(3);
        dirs.into_iter()
            .try_for_each(|dir| sync_names(&*self.shared.disk, dir))
    }

    /// Called once the manifest lists these objects and their missing pages are saved.
    pub(super) fn drop_saved(&self, quarantined: Vec<Listed>) {
        self.objects
            .quarantine_is_listed(quarantined.iter().map(|(object, _)| object.key));
        for (object, _) in quarantined {
            let mut pages = object.pages();
            self.objects.count_overlay(pages.overlay.len(), 0);
            pages.overlay = FxHashMap::default();
        }
    }
}
