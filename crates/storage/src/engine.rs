//! The engine of an open store: its parts, and the operations that need several of them.

use crate::alarms::AlarmIndex;
use crate::archive::Archive;
use crate::archive::archiver::Archiver;
use crate::archive::compactor::Compactor;
use crate::archive::sweep::Sweep;
use crate::catalog;
use crate::checkpoint::Checkpointer;
use crate::error::{Error, Result};
use crate::hydration::Hydration;
use crate::ident::{Lsn, NamespaceNo, ObjectKey, Page};
use crate::limits::CLOCK_TOLERANCE;
use crate::log::gate::Gate;
use crate::log::part::{self, LogPart};
use crate::log::range::{self, Range};
use crate::log::segment_pool::SegmentPool;
use crate::log::{Shortage, Transaction, WallTime};
use crate::objects::ObjectTable;
use crate::overlay::Object;
use crate::shared::Shared;
use crate::stored::Stored;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicBool;
use crate::waits::{WaitReason, Waits};
use crate::wakeup::Wakeup;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Engine {
    pub(crate) shared: Arc<Shared>,
    pub(crate) segments: Arc<SegmentPool>,
    pub(crate) objects: Arc<ObjectTable>,
    pub(crate) alarms: Arc<AlarmIndex>,
    pub(crate) archive: Arc<Archive>,
    pub(crate) archiver: Arc<Archiver>,
    pub(crate) compactor: Compactor,
    pub(crate) checkpointer: Checkpointer,
    /// Locked during a slice.
    pub(crate) sweep: Mutex<Sweep>,
    pub(crate) hydration: Hydration,
    /// Wakes the thread that takes checkpoints.
    pub(crate) maintenance: Wakeup,
    /// Wakes the thread that keeps the right part of the history on the disk.
    pub(crate) keeping: Wakeup,
    /// Someone waits for a copy of the history. After an opening someone may.
    pub(crate) copy_is_wanted: AtomicBool,
    pub(crate) waits: Waits,
    pub(crate) stored: Stored,
    /// One repair at a time.
    pub(crate) repairs: Mutex<()>,
    /// One replacement of an object's file at a time.
    pub(crate) replacements: Mutex<()>,
    /// How far the log may be copied.
    pub(crate) gate: Gate,
    /// The pages of an object that was never written.
    pub(crate) template: Vec<Arc<Page>>,
}

impl Engine {
    /// Builds the engine from the state that recovery found.
    pub(crate) fn new(
        shared: Shared,
        segments: Arc<SegmentPool>,
        objects: FxHashMap<ObjectKey, Arc<Object>>,
        alarms: AlarmIndex,
        template: Vec<Arc<Page>>,
    ) -> Self {
        let options = &shared.options;
        let stored = Stored::new(options.max_object_bytes, options.max_bytes);
        let shared = Arc::new(shared);
        let alarms = Arc::new(alarms);
        let objects = Arc::new(ObjectTable::new(shared.clone(), alarms.clone(), objects));
        let archive = Arc::new(Archive::new(shared.clone()));
        let archiver = Arc::new(Archiver::new(archive.clone(), segments.clone()));
        let (manifest, version) = shared.catalog.current_history();
        let gate = Gate::of(&manifest.archive, shared.log.appended(), version);
        Self {
            compactor: Compactor::new(archive.clone()),
            checkpointer: Checkpointer::new(
                shared.clone(),
                objects.clone(),
                alarms.clone(),
                segments.clone(),
                archiver.clone(),
            ),
            sweep: Mutex::default(),
            hydration: Hydration::new(
                shared.catalog.current().hydration.map(|state| state.next),
                shared.options.has_shared_runs(),
            ),
            shared,
            segments,
            objects,
            alarms,
            archive,
            archiver,
            maintenance: Wakeup::default(),
            keeping: Wakeup::default(),
            copy_is_wanted: AtomicBool::new(true),
            waits: Waits::default(),
            stored,
            repairs: Mutex::default(),
            replacements: Mutex::default(),
            gate,
            template,
        }
    }

    /// Adds a step back of the wall clock to the sum, durably: see [`crate::alarms`]. If it cannot be saved, commits save
    /// it first, or fail.
    pub(crate) fn clock_set_back(&self, by_millis: i64) -> Result<()> {
        let mut steps = 0;
        self.shared.publish(|manifest| {
            let set_back = self.alarms.set_back().saturating_add(by_millis.max(0));
            self.alarms.clock_set_back(set_back);
            let unix_millis = self.shared.unix_millis();
            steps = self.shared.log.begin_clock(unix_millis);
            let now = WallTime { unix_millis, steps };
            self.shared.note_clock(manifest, now, set_back);
        })?;
        self.shared.clock_saved(steps);
        Ok(())
    }

    /// Counts a step back of the wall clock since the newest time that was stored.
    pub(crate) fn catch_up_with_clock(&self) -> Result<()> {
        let now = self.shared.unix_millis();
        let behind = self.shared.log.clock_behind(now);
        // At 0 there is no clock.
        let is_step = now > 0 && u128::from(behind) > CLOCK_TOLERANCE.as_millis();
        if !is_step {
            return Ok(());
        }
        tracing::warn!(
            by_millis = behind,
            "the wall clock has been set back since the last commit: waiting alarms fire as if it had not been"
        );
        let behind = i64::try_from(behind).unwrap_or(i64::MAX);
        self.clock_set_back(behind)
    }

    /// The time of a commit. What the clock's steps back before it add up to is durable.
    ///
    /// # Errors
    /// The sum cannot be saved.
    pub(crate) fn commit_time(&self) -> Result<WallTime> {
        let now = self.shared.wall_time();
        if self.shared.clock_is_unsaved(now) {
            let set_back = self.alarms.set_back();
            self.shared
                .publish(|manifest| self.shared.note_clock(manifest, now, set_back))?;
            self.shared.clock_saved(now.steps);
        }
        Ok(now)
    }

    /// Returns whether an object that has a file was deleted: the next checkpoint removes the file.
    pub(crate) fn has_ended(&self, key: ObjectKey) -> bool {
        let object = self.objects.find(key);
        object.is_some_and(|object| object.pages().ended)
    }

    /// The first `limit` stored objects of a namespace after an id, in order. Reads only the directories that may hold them.
    pub(crate) fn objects_after(
        &self,
        namespace: NamespaceNo,
        after: Option<[u8; 32]>,
        limit: usize,
    ) -> Result<Vec<ObjectKey>> {
        let Some(dir) = self.shared.catalog.namespace_dir(namespace) else {
            return Ok(Vec::new());
        };
        let is_next = |id: [u8; 32]| after.is_none_or(|after| id > after);
        // Those in memory first: one that leaves memory after this has its file.
        let written = self.objects.all().into_iter().filter(|object| {
            object.key.namespace == namespace && object.pages().size > 0 && is_next(object.key.id)
        });
        let mut found: BTreeSet<_> = written.map(|object| object.key).collect();
        // The file of one that is quarantined may be missing.
        let quarantined = self.objects.quarantined().into_iter().map(|of| of.key);
        found.extend(quarantined.filter(|key| key.namespace == namespace && is_next(key.id)));
        let disk = &*self.shared.disk;
        let failed = |error| Error::io(format_args!("reading {}", dir.display()), &error);
        let first = after.map(|after| hex::encode(&after[..1]));
        // A part is named after the first byte of its ids.
        let mut parts: BTreeSet<_> = disk.list(&dir).map_err(failed)?.into_iter().collect();
        parts.extend(self.hydration.parts().map(|byte| hex::encode([byte])));
        parts.retain(|part| catalog::is_part(part));
        parts.retain(|part| first.as_ref().is_none_or(|first| part >= first));
        let mut cold = self.cold_objects();
        let mut in_files = 0;
        for part in parts {
            if in_files >= limit {
                break;
            }
            let byte = u8::from_str_radix(&part, 16).unwrap_or_default();
            for key in cold.with_first_byte(byte)?.into_keys() {
                if key.namespace == namespace && is_next(key.id) {
                    in_files += 1;
                    found.insert(key);
                }
            }
            for file in disk.list(&dir.join(part)).map_err(failed)? {
                let id = file.strip_suffix(".sqlite").and_then(ObjectKey::parse_id);
                let id = id.filter(|id| is_next(*id));
                let key = id.map(|id| ObjectKey { namespace, id });
                if let Some(key) = key.filter(|key| !self.has_ended(*key)) {
                    in_files += 1;
                    found.insert(key);
                }
            }
        }
        Ok(found.into_iter().take(limit).collect())
    }

    /// Returns whether an object is stored. Reads a directory and opens no file.
    pub(crate) fn has_object(&self, key: ObjectKey) -> Result<bool> {
        if let Some(object) = self.objects.find(key) {
            let pages = object.pages();
            if pages.size > 0 || pages.quarantined.is_some() {
                return Ok(true);
            }
            if pages.ended {
                return Ok(false);
            }
        }
        if self.objects.quarantined().iter().any(|of| of.key == key) {
            return Ok(true);
        }
        let path = self.shared.catalog.object_path(key);
        let place = path
            .as_deref()
            .and_then(|path| Some((path.parent()?, path.file_name()?.to_str()?)));
        let Some((dir, file)) = place else {
            return Ok(false);
        };
        let failed = |error| Error::io(format_args!("reading {}", dir.display()), &error);
        let names = self.shared.disk.list(dir).map_err(failed)?;
        Ok(names.iter().any(|name| name == file) || self.cold(key)?.is_some())
    }

    /// Records that an overlay changed from `before` to `after` pages.
    pub(crate) fn count_overlay(&self, before: usize, after: usize) {
        self.objects.count_overlay(before, after);
        if self.checkpointer.is_due() {
            self.maintenance.request();
        }
    }

    /// Why a commit has to wait.
    pub(crate) fn wait_reason(&self, shortage: Shortage) -> WaitReason {
        // A segment that a transaction is waiting for, or the first one.
        let out_of_segments = self.shared.log.wants_segment(1);
        match shortage {
            _ if self.shared.no_space() && (out_of_segments || self.objects.overlay_is_full()) => {
                WaitReason::DiskSpace
            }
            Shortage::Overlay => WaitReason::OverlayBound,
            Shortage::Unsynced => WaitReason::UnsyncedBytes,
            Shortage::Segments if self.may_prepare_segment() => WaitReason::Segment,
            Shortage::Segments => WaitReason::LogBound,
        }
    }

    /// Returns whether the log stays within its limit with one more segment.
    pub(crate) fn may_prepare_segment(&self) -> bool {
        let needed = self.shared.needed_segment_bytes();
        self.shared
            .may_prepare_segment(self.segments.next_bytes(needed))
    }

    /// Waits until there may be space for a commit. For committers that got [`crate::log::Refused::NoRoom`] and hold no
    /// lock.
    pub(crate) fn make_room(&self, shortage: Shortage, transaction: &Transaction) -> Result<()> {
        let Shared { log, .. } = &*self.shared;
        log.must_be_open()?;
        if !self.shared.threads {
            log.write_group();
            self.run_maintenance()?;
        }
        // A segment that a transaction is waiting for, or the first one.
        if log.wants_segment(1) || self.objects.overlay_is_full() {
            if self.shared.no_space() {
                return Err(Error::no_space());
            }
            if let Some(obstacle) = self.shared.obstacle() {
                return Err(obstacle);
            }
        }
        if !self.shared.threads {
            return Ok(());
        }
        self.request_maintenance();
        let moment = Duration::from_millis(50);
        match shortage {
            Shortage::Overlay => log.wait_for_progress(moment),
            Shortage::Segments | Shortage::Unsynced => log.wait_for_room(transaction, moment),
        }
        Ok(())
    }

    /// Returns when everything up to `lsn` is durable and, if that is awaited, copied. Without threads it does not wait for
    /// the copy, which is the caller's work.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        let Shared { log, threads, .. } = &*self.shared;
        if *threads {
            log.wait_released(lsn)
        } else {
            log.wait_durable(lsn, true)
        }
    }

    /// See [`crate::Store::log_part`].
    pub(crate) fn log_part(&self, from: Option<Lsn>, most: usize) -> Result<Option<LogPart>> {
        let Shared {
            disk, log, catalog, ..
        } = &*self.shared;
        let from = from.unwrap_or_else(|| self.shared.needed_log());
        let durable = log.durable();
        let end = self.gate.end(durable);
        let kept = self.segments.extent_at(from);
        // What is kept may begin after the gate.
        let is_recycled = || kept.is_some_and(|kept| kept.first >= end);
        if from >= end || (end < durable && is_recycled()) {
            return Ok(None);
        }
        let Range { first, records } = range::read(&**disk, &self.segments, from, end, most)?;
        // A class is in the manifest before its first commit is in the log.
        let manifest = catalog.current();
        part::encode(first, &records, &manifest.namespaces).map(Some)
    }

    /// Stops the threads.
    pub(crate) fn stop(&self) {
        self.shared.log.close();
        self.archive.stop();
        self.maintenance.stop();
        self.keeping.stop();
        self.segments.wakeup.stop();
    }

    /// The number of a namespace; a new one is durable before it is returned.
    pub(crate) fn namespace(&self, unique_key: &str) -> Result<NamespaceNo> {
        catalog::check_unique_key(unique_key)?;
        loop {
            if let Some(number) = self.shared.catalog.current().namespace(unique_key) {
                return Ok(number);
            }
            if let Some(shared) = &self.shared.options.shared_namespaces {
                let all = shared.with(unique_key).map_err(|error| {
                    Error::io(
                        format_args!("asking for the number of the class `{unique_key}`"),
                        &error,
                    )
                })?;
                self.learn_namespaces(&all)?;
                let number = self.shared.catalog.current().namespace(unique_key);
                return number.ok_or_else(|| {
                    Error::refused(format!("the class `{unique_key}` was not given a number"))
                });
            }
            self.finish_deletion_of(unique_key)?;
            self.shared.publish(|manifest| {
                // It may have been begun and deleted in the meantime.
                let is_free = !manifest.removing.contains(unique_key);
                if is_free && manifest.namespace(unique_key).is_none() {
                    manifest.namespaces.push(unique_key.to_owned());
                }
            })?;
        }
    }
}
