//! A sweep: objects that have no complete state in the runs get one from their files, although they are not written.
//!
//! Such an object is older than the archive, was written while the archive was off, or its history has a hole. The
//! archiver gives it a snapshot with its next commit, but an idle object has none. The manifest therefore counts the
//! **lapses** after which an object may have no complete state, and the lapses before the last sweep that has found, or
//! made, a state of every object: if the two are equal, the runs are complete ([`ArchiveState::is_complete`]).
//!
//! A sweep compares the object files with the indexes of the runs, one first byte of the ids after another, and looks at
//! the **candidates**: objects that may lack a state according to the indexes. A **slice** looks at some of them while
//! no checkpoint runs and all files are as of the redo position, and writes the snapshots as one run. Objects with
//! commits after that position are left to the archiver: the next checkpoint gives them a base, or records a lapse.
//!
//! An object that was deleted while the archive was off still exists according to the runs. It gets a snapshot that says
//! that there is no object any more, so that a copy of the runs does not bring it back. If its newest archived commit is
//! after the last gap, its file was not deleted by the store: it is missing.

use super::Archive;
use super::archiver::Archiver;
use super::entry::{Entry, Head, Kind};
use super::index::{IndexEntry, KnownAlarm, Newest};
use super::lookup::Lookup;
use super::object_file::ObjectFile;
use super::run::RunWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, Life, Lsn, ObjectKey};
use crate::limits::{ARCHIVE_SWEEP_BYTES, ARCHIVE_SWEEP_REST, PAGE_BYTES};
use crate::manifest::ArchiveState;
use crate::timing;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Instant;

/// The sweeps of an open store.
#[derive(Default)]
pub(crate) struct Sweep {
    /// The one under way.
    pub(crate) pass: Option<Pass>,
    /// The last one, which could not find a state of every object.
    ended: Option<Ended>,
}

struct Ended {
    lapses: u64,
    at: Instant,
    /// It has looked at every object.
    is_whole: bool,
}

/// A sweep under way.
pub(crate) struct Pass {
    /// The lapses before it.
    pub(crate) lapses: u64,
    /// The first byte of the ids to be compared next; 256 at the end.
    pub(crate) next: u16,
    /// Objects to look at, in the order of the archive.
    pub(crate) candidates: VecDeque<ObjectKey>,
    /// Objects without a complete state that cannot get one now.
    pub(crate) missing: BTreeSet<ObjectKey>,
    /// The sweep is over once the log is archived beyond this position.
    pub(crate) until: Option<Lsn>,
    /// A run could not be read.
    pub(crate) has_unread: bool,
    pub(crate) snapshots: u64,
}

impl Sweep {
    /// Begins a sweep after this many lapses, unless the last one has shown that there is no use in it yet. A store
    /// without threads makes no decision by the clock.
    pub(crate) fn begin(&mut self, lapses: u64, threads: bool) {
        let is_due = self.ended.as_ref().is_none_or(|ended| {
            let is_new = ended.lapses != lapses;
            let is_rested = ended.at.elapsed() >= ARCHIVE_SWEEP_REST;
            if threads { is_rested } else { is_new }
        });
        if self.pass.is_none() && is_due {
            self.pass = Some(Pass {
                lapses,
                next: 0,
                candidates: VecDeque::new(),
                missing: BTreeSet::new(),
                until: None,
                has_unread: false,
                snapshots: 0,
            });
        }
    }

    /// Ends the sweep under way.
    pub(crate) fn end(&mut self) {
        self.ended = self.pass.take().map(|pass| Ended {
            lapses: pass.lapses,
            at: timing::now(),
            is_whole: pass.next > u16::from(u8::MAX)
                && pass.candidates.is_empty()
                && !pass.has_unread,
        });
    }

    /// Returns whether the last sweep has looked at every object after this many lapses: the runs have the states of all but
    /// those that it missed.
    pub(crate) fn has_looked_at_all(&self, lapses: u64) -> bool {
        let ended = self.ended.as_ref();
        ended.is_some_and(|ended| ended.is_whole && ended.lapses == lapses)
    }

    /// The next sweep may begin at once.
    pub(crate) fn forget_last(&mut self) {
        self.ended = None;
    }
}

impl Pass {
    /// Records that an object has no complete state in the runs and cannot get one now. Returns false if that is known.
    pub(crate) fn note_missing(&mut self, key: ObjectKey, why: impl fmt::Display) -> bool {
        let is_new = self.missing.insert(key);
        if is_new {
            tracing::warn!(object = %key, %why, "the archive lacks the present state of an object");
        }
        is_new
    }
}

/// What a slice has found out about a candidate.
pub(crate) enum Found {
    /// It has a complete state, or there is no such object.
    Complete,
    /// Its state is in the slice's run.
    Archived,
    /// There is nothing from which its state can be archived.
    Missing(&'static str),
}

impl IndexEntry {
    /// Returns whether it shows without a look at the object's file that the runs have the object's newest state.
    pub(crate) fn is_surely_newest(&self, state: &ArchiveState) -> bool {
        self.has_base(state.rebase) && self.last.lsn.0 >= state.gap
    }
}

impl Archive {
    /// Sets the damaged ones of these unreadable runs aside. Returns whether there are others.
    pub(crate) fn set_damaged_aside(&self, unread: &[(u64, Error)]) -> Result<bool> {
        let known = self.state().damaged;
        // A merge may have replaced it.
        let is_new = |number| !known.contains(&number) && self.has(number);
        let new = unread.iter().filter(|(number, _)| is_new(*number));
        let (damaged, others): (Vec<_>, Vec<_>) =
            new.partition(|(_, error)| error.kind() == ErrorKind::Damaged);
        if !damaged.is_empty() {
            let damaged = damaged.iter().map(|(number, _)| *number);
            self.set_aside(&damaged.collect())?;
        }
        Ok(!others.is_empty())
    }

    /// Returns whether the disk has room for this many bytes of files that can wait.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        self.available() >= self.reserve().saturating_add(bytes)
    }
}

/// A slice of a sweep. The caller has paused checkpoints, and all files are as of `redo`, except those of objects that
/// are not passed to it.
pub(crate) struct Slice<'a> {
    archiver: &'a Archiver,
    archive: &'a Archive,
    state: ArchiveState,
    redo: Lsn,
    known: Lookup<'a>,
    writer: Option<RunWriter>,
    bytes: u64,
    snapshots: u64,
}

impl<'a> Slice<'a> {
    pub(crate) fn new(archiver: &'a Archiver, redo: Lsn) -> Self {
        let archive = &archiver.archive;
        Self {
            archiver,
            archive,
            state: archive.state(),
            redo,
            known: Lookup::intact(archive),
            writer: None,
            bytes: 0,
            snapshots: 0,
        }
    }

    /// Returns whether it has taken its share.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= ARCHIVE_SWEEP_BYTES
    }

    /// Looks at a candidate. Candidates come in the order of the archive. `has_alarm`: the object has an alarm, and
    /// therefore existed. After an error the slice is given up.
    pub(crate) fn take(&mut self, key: ObjectKey, has_alarm: bool) -> Result<Found> {
        let shared = &self.archive.shared;
        if shared.catalog.object_path(key).is_none() {
            return Ok(Found::Complete);
        }
        let known = self.known.newest(key);
        self.known.must_be_certain()?;
        let Some(mut file) = ObjectFile::open(shared, key)? else {
            return match known.filter(|known| known.newest.pages > 0) {
                None => Ok(Found::Complete),
                Some(known) if known.last.lsn.0 < self.state.gap && !has_alarm => {
                    self.add_end(&known)?;
                    Ok(Found::Archived)
                }
                Some(_) => Ok(Found::Missing(
                    "its file is missing, although the archive has its history",
                )),
            };
        };
        if !file.is_whole()? {
            return Ok(Found::Missing("its file is not a whole database"));
        }
        let (commit, pages) = (file.commit(), file.pages());
        let known = known.filter(|known| known.newest.commit == commit);
        if known
            .is_some_and(|known| known.newest.pages == pages && known.has_base(self.state.rebase))
        {
            return Ok(Found::Complete);
        }
        let head = self.head(key, commit);
        file.copy(self.writer()?, head)?;
        let alarm = known.map_or(KnownAlarm::Unknown, |known| known.newest.alarm);
        self.end_object(commit, pages, alarm)?;
        Ok(Found::Archived)
    }

    /// Adds a snapshot that says that there is no object any more.
    fn add_end(&mut self, known: &IndexEntry) -> Result<()> {
        // Which number the last commit had is unknown, except that it was a later one.
        let commit = known.newest.commit.next().next();
        let head = Head {
            life: Life::Ends,
            ..self.head(known.key, commit)
        };
        let payload = &[];
        self.writer()?.add(&Entry { head, payload })?;
        self.end_object(commit, 0, KnownAlarm::Absent)
    }

    fn end_object(&mut self, commit: CommitNo, pages: u32, alarm: KnownAlarm) -> Result<()> {
        self.writer()?.end_object(Newest {
            commit,
            pages,
            alarm,
            since_base: 0,
        });
        self.bytes += u64::from(pages) * PAGE_BYTES as u64;
        self.snapshots += 1;
        Ok(())
    }

    /// The header of a snapshot. When the commit was made is unknown, but it was not later than now.
    fn head(&self, key: ObjectKey, commit: CommitNo) -> Head {
        let shared = &self.archive.shared;
        Head {
            key,
            commit,
            position: shared.log.position(self.redo),
            database_pages: 0,
            unix_millis: shared.unix_millis(),
            entries: 0,
            kind: Kind::Snapshot,
            life: Life::Continues,
            replaces: false,
            first: true,
            last: true,
        }
    }

    fn writer(&mut self) -> Result<&mut RunWriter> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.archiver.new_run(self.redo.0, self.redo.0)?,
        };
        Ok(self.writer.insert(writer))
    }

    /// Publishes what it has written. Returns the number of snapshots, and a run that could not be read.
    pub(crate) fn publish(self) -> Result<(u64, Option<(u64, Error)>)> {
        if let Some(writer) = self.writer {
            let made = writer.finish()?;
            self.archive.publish(|state| state.runs.push(made))?;
            self.archive.request_compaction();
        }
        Ok((self.snapshots, self.known.into_lost_run()))
    }
}
