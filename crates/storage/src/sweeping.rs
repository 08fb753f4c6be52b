//! Drives the sweeps of the archive: see [`crate::archive::sweep`].
//!
//! Maintenance calls [`Engine::sweep`] between its other work. A slice waits for no checkpoint, and a checkpoint waits for
//! at most one slice; commits do not wait for either.

use crate::archive::sweep::{Found, Pass, Slice};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{Lsn, NamespaceNo, ObjectKey};
use crate::limits::{
    ARCHIVE_SWEEP_BYTES, ARCHIVE_SWEEP_NAMES, ARCHIVE_SWEEP_OBJECTS, MAX_FAILING_FILES,
};
use crate::manifest::Manifest;
use std::collections::BTreeSet;

/// The number of first bytes of ids.
const BYTES: u16 = 256;

/// What follows a slice.
#[derive(PartialEq, Eq)]
enum Next {
    /// Another slice.
    Slice,
    /// Another slice, after a checkpoint.
    AfterCheckpoint,
    /// The sweep has ended.
    End,
}

impl Engine {
    /// Does the next slice of a sweep, if the runs may lack an object. Returns whether another can follow soon. An error
    /// has ended the sweep; a later one tries again.
    pub(crate) fn sweep(&self) -> Result<bool> {
        // Without threads, a commit may need maintenance in the middle of anything.
        let Some(mut sweep) = self.sweep.try_lock() else {
            return Ok(false);
        };
        let manifest = self.shared.catalog.current();
        let archive = &manifest.archive;
        if manifest.hydration.is_some() {
            return Ok(false);
        }
        if archive.archived.is_none() || archive.is_complete() {
            sweep.pass = None;
            sweep.forget_last();
            self.archive.set_missing(&BTreeSet::new(), 0);
            return Ok(false);
        }
        if self.archive.is_stopping() {
            return Ok(false);
        }
        if sweep.pass.is_none() && self.archive.take_sweep_again() {
            sweep.forget_last();
        }
        sweep.begin(archive.lapses, self.shared.threads);
        let Some(pass) = &mut sweep.pass else {
            return Ok(false);
        };
        let next = self.slice(pass);
        if matches!(next, Ok(Next::Slice | Next::AfterCheckpoint)) {
            let candidates = pass.candidates.len();
            self.archive.set_missing(&pass.missing, candidates);
        } else {
            self.archive.set_missing(&pass.missing, 0);
            sweep.end();
        }
        next.map(|next| next == Next::Slice)
    }

    fn slice(&self, pass: &mut Pass) -> Result<Next> {
        self.find_candidates(pass)?;
        if pass.candidates.is_empty() {
            return if pass.next < BYTES {
                Ok(Next::Slice)
            } else {
                self.end_sweep(pass)
            };
        }
        if !self.archive.has_room_for(ARCHIVE_SWEEP_BYTES) {
            tracing::warn!(
                "the disk has no room for the states of objects that the archive lacks: trying again later"
            );
            return Ok(Next::End);
        }
        loop {
            match self.archive_candidates(pass) {
                // The others are archived without it.
                Err(error) if let Some(key) = error.object() => {
                    let is_new = pass.note_missing(key, &error);
                    if !is_new || pass.missing.len() > MAX_FAILING_FILES {
                        return Err(error);
                    }
                }
                next => return next,
            }
        }
    }

    /// Looks for objects that may lack a state in the runs, according to their indexes.
    fn find_candidates(&self, pass: &mut Pass) -> Result<()> {
        if pass.next == BYTES || pass.candidates.len() >= ARCHIVE_SWEEP_OBJECTS {
            return Ok(());
        }
        let mut manifest = self.shared.catalog.current();
        let mut newest = self
            .archive
            .newest_entries_without(&manifest.archive.damaged);
        newest.skip_to(pass.next as u8);
        self.archive.set_damaged_aside(newest.unread())?;
        if pass.next == 0 {
            manifest = self.shared.catalog.current();
            pass.lapses = manifest.archive.lapses;
        }
        let mut names = 0;
        while pass.next < BYTES
            && names < ARCHIVE_SWEEP_NAMES
            && pass.candidates.len() < ARCHIVE_SWEEP_OBJECTS
            && !self.archive.is_stopping()
        {
            let known = newest.with_first_byte(pass.next as u8);
            let stored = self.stored_with_first_byte(&manifest, pass.next as u8)?;
            names += stored.len();
            let is_sure = |key: &ObjectKey| {
                let known = known.get(key).filter(|known| known.newest.pages > 0);
                known.is_some_and(|known| known.is_surely_newest(&manifest.archive))
            };
            let is_gone = |key: &ObjectKey| {
                !stored.contains(key) && manifest.unique_key(key.namespace).is_some()
            };
            let unsure = stored.iter().filter(|key| !is_sure(key)).copied();
            let gone = known.iter().filter(|(_, known)| known.newest.pages > 0);
            let gone = gone.map(|(key, _)| *key).filter(is_gone);
            let candidates: BTreeSet<_> = unsure.chain(gone).collect();
            pass.candidates.extend(candidates);
            pass.next += 1;
        }
        pass.has_unread |= self.archive.set_damaged_aside(newest.unread())?;
        Ok(())
    }

    /// The objects that have files, and whose ids begin with this byte.
    fn stored_with_first_byte(&self, manifest: &Manifest, byte: u8) -> Result<BTreeSet<ObjectKey>> {
        let mut stored = BTreeSet::new();
        let disk = &*self.shared.disk;
        for namespace in (1..=manifest.namespaces.len() as u32).map(NamespaceNo) {
            let Some(dir) = self.shared.catalog.namespace_dir(namespace) else {
                continue;
            };
            let part = dir.join(format!("{byte:02x}"));
            let names = disk
                .list(&part)
                .map_err(|error| Error::io(format_args!("reading {}", part.display()), &error))?;
            let ids = names
                .iter()
                .filter_map(|name| name.strip_suffix(".sqlite").and_then(ObjectKey::parse_id));
            stored.extend(ids.map(|id| ObjectKey { namespace, id }));
        }
        Ok(stored)
    }

    /// Archives the states of the next candidates, as one run.
    fn archive_candidates(&self, pass: &mut Pass) -> Result<Next> {
        let Some(files) = self.checkpointer.try_pause()? else {
            return Ok(Next::Slice);
        };
        let manifest = self.shared.catalog.current();
        let redo = Lsn(manifest.redo);
        let Some(ahead) = &files.ahead else {
            return Ok(Next::AfterCheckpoint);
        };
        if manifest.archive.archived != Some(manifest.redo) {
            return Ok(Next::AfterCheckpoint);
        }
        let quarantined: BTreeSet<_> = self
            .objects
            .quarantined()
            .into_iter()
            .map(|object| object.key)
            .collect();
        let mut slice = Slice::new(&self.archiver, redo);
        let (mut looked, mut lacking, mut until) = (0, Vec::new(), pass.until);
        for &key in pass.candidates.iter().take(ARCHIVE_SWEEP_OBJECTS) {
            if slice.is_full() || self.archive.is_stopping() {
                break;
            }
            looked += 1;
            if pass.missing.contains(&key) {
                continue;
            }
            if quarantined.contains(&key) {
                lacking.push((key, "it is quarantined"));
                continue;
            }
            if ahead.contains(&key) {
                // The archiver continues it.
                until = Some(redo);
                continue;
            }
            let has_alarm = self.alarms.get(key).is_some();
            if let Found::Missing(why) = slice.take(key, has_alarm)? {
                lacking.push((key, why));
            }
        }
        let (snapshots, unread) = slice.publish()?;
        drop(files);
        pass.snapshots += snapshots;
        pass.has_unread |= self.archive.set_damaged_aside(unread.as_slice())?;
        pass.until = until;
        pass.candidates.drain(..looked);
        for (key, why) in lacking {
            pass.note_missing(key, why);
        }
        Ok(Next::Slice)
    }

    fn end_sweep(&self, pass: &Pass) -> Result<Next> {
        let archived = self.shared.catalog.current().archive.archived;
        if let Some(until) = pass.until
            && archived <= Some(until.0)
        {
            return Ok(Next::AfterCheckpoint);
        }
        let (snapshots, missing) = (pass.snapshots, pass.missing.len());
        if pass.missing.is_empty() && !pass.has_unread {
            self.shared
                .publish(|manifest| manifest.archive.note_sweep(pass.lapses))?;
            tracing::info!(snapshots, "the archive has every object");
        } else {
            tracing::warn!(snapshots, missing, "the archive does not have every object");
        }
        Ok(Next::End)
    }
}
