//! Restoring to a time: for each object the last commit until then, and the commit that restores it.
//!
//! The newest commits of an object stay in its history. So the restore is another commit after them, in a separate run,
//! which a later restore of the object undoes.

use super::source::{Part, Source};
use crate::archive::chain::Chain;
use crate::archive::entry::{Entry, Head, Kind};
use crate::archive::index::{KnownAlarm, Newest};
use crate::archive::run::RunWriter;
use crate::archive::{DIR, snapshot};
use crate::catalog;
use crate::disk::{Disk, OpenMode};
use crate::error::{Error, Result};
use crate::ident::{CommitNo, Life, ObjectKey, ZERO_PAGE};
use crate::limits::PAGE_BYTES;
use crate::manifest::{Manifest, RunMeta};
use crate::parallel;
use crate::sync::Mutex;
use crate::timeline::Mark;
use crate::timing::time;
use std::path::Path;
use std::sync::Arc;

/// As when runs are merged.
const COMPRESSION: i32 = 3;

/// What the archive has of an object around a time.
pub(super) struct Past {
    key: ObjectKey,
    /// The last entry until then, and what is complete there; `None` if the history begins later.
    target: Option<(Head, Chain)>,
    /// The commit after it.
    next: Option<CommitNo>,
    /// What is complete at the end.
    newest: Chain,
    newest_commit: CommitNo,
    /// The time of the first complete state, unless the history begins with the object.
    since: Option<u64>,
    begins: bool,
}

/// The commit that restores an object.
pub(super) struct Change {
    key: ObjectKey,
    pub(super) commit: CommitNo,
    /// 0 if it ends the object.
    pages: u32,
    life: Life,
    kind: Kind,
}

/// The pasts of all objects of a part, in order.
pub(super) fn of_part(mut part: Part<'_>, at: u64) -> Result<Vec<Past>> {
    let mut pasts = Vec::new();
    while let Some(key) = part.object()? {
        pasts.push(Past::read(&mut part, key, at)?);
    }
    Ok(pasts)
}

/// Returns an error if the history of an object that may have existed at a time begins later.
pub(super) fn must_be_known(source: &Source<'_>, at: u64, threads: usize) -> Result<()> {
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    let begins_later = Mutex::new((0_u64, 0));
    parallel::for_each(threads, &bytes, |byte| {
        for past in of_part(source.part(*byte)?, at)? {
            if let Knowledge::BeginsAt(since) = past.knowledge() {
                let (count, latest) = &mut *begins_later.lock();
                *count += 1;
                *latest = since.max(*latest);
            }
        }
        Ok(())
    })?;
    match begins_later.into_inner() {
        (0, _) => Ok(()),
        (count, latest) => Err(Error::input(format!(
            "the archive does not have every object at {}: the history of {count} of them begins later. Choose {} or a \
             later time",
            time(at),
            time(latest)
        ))),
    }
}

/// Whether the archive has an object at the time.
enum Knowledge {
    Is,
    BeginsAt(u64),
    HasHole,
}

impl Past {
    fn read(entries: &mut Part<'_>, key: ObjectKey, at: u64) -> Result<Self> {
        let mut past = Self {
            key,
            target: None,
            next: None,
            newest: Chain::Nothing,
            newest_commit: CommitNo(0),
            since: None,
            begins: false,
        };
        let mut is_first = true;
        entries.entries(key, |entry| {
            let head = &entry.head;
            past.newest = past.newest.then(head);
            past.newest_commit = head.commit;
            past.begins |= is_first && head.life == Life::Begins;
            // It did not exist before the commit that continues it.
            is_first &= head.kind == Kind::Snapshot && head.replaces;
            if past.since.is_none() && past.newest.at().is_some() {
                past.since = Some(head.unix_millis);
            }
            if head.last && head.unix_millis <= at {
                (past.target, past.next) = (Some((*head, past.newest)), None);
            } else if head.kind == Kind::Commit
                && let Some((target, _)) = past.target
                && head.position > target.position
            {
                past.next.get_or_insert(head.commit);
            }
            Ok(())
        })?;
        Ok(past)
    }

    fn knowledge(&self) -> Knowledge {
        let Some(since) = self.since else {
            // It has no complete state at any time.
            return Knowledge::Is;
        };
        match self.target {
            None if self.begins => Knowledge::Is,
            None => Knowledge::BeginsAt(since),
            Some((target, Chain::At(_))) if self.is_followed(&target) => Knowledge::Is,
            Some(_) => Knowledge::HasHole,
        }
    }

    /// Returns whether no commit is missing after one: it may have been made until the time.
    fn is_followed(&self, target: &Head) -> bool {
        let is_next = |next| next == target.commit.next();
        target.life == Life::Ends || self.next.is_none_or(is_next)
    }

    /// Returns whether a part of the history is missing at the time.
    pub(super) fn has_hole(&self) -> bool {
        matches!(self.knowledge(), Knowledge::HasHole)
    }

    /// Returns whether an entry is part of the state at the time.
    pub(super) fn includes(&self, head: &Head) -> bool {
        match self.target {
            Some((target, _)) => head.place() <= target.place(),
            // What is there of an object without any complete state.
            None => self.since.is_none(),
        }
    }

    /// The commit that restores the object to a state, `None` for its absence, unless that is the newest.
    pub(super) fn change_to(&self, state: Option<&Head>) -> Option<Change> {
        let newest = self.newest.at();
        let is_present = newest.is_some_and(|newest| newest.life != Life::Ends);
        let (life, kind) = match (state, newest) {
            (None, _) if !is_present => return None,
            (None, _) => (Life::Ends, Kind::Commit),
            (Some(state), _) if state.commit == self.newest_commit => return None,
            // A commit would continue nothing.
            (Some(_), None) => (Life::Continues, Kind::Snapshot),
            (Some(_), Some(_)) if is_present => (Life::Continues, Kind::Commit),
            (Some(_), Some(_)) => (Life::Begins, Kind::Commit),
        };
        Some(Change {
            key: self.key,
            commit: self.newest_commit.next(),
            pages: state.map_or(0, |state| state.database_pages),
            life,
            kind,
        })
    }
}

/// Writes the commits that restore objects as a run, if there are any. The pages are those of the objects' files.
pub(super) fn write_run(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    manifest: &Manifest,
    changes: &[Change],
    mark: Mark,
    threads: usize,
) -> Result<Option<RunMeta>> {
    if changes.is_empty() {
        return Ok(None);
    }
    let at = mark.position();
    let meta = RunMeta::of_log(manifest.archive.newest + 1, at.lsn.get(), at.lsn.get());
    let archive = dir.join(DIR);
    let mut writer =
        RunWriter::create(disk.clone(), manifest, &archive, meta, COMPRESSION, threads)?;
    for change in changes {
        add(&**disk, dir, manifest, change, mark, &mut writer)?;
    }
    writer.finish().map(Some)
}

fn add(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    change: &Change,
    mark: Mark,
    writer: &mut RunWriter,
) -> Result<()> {
    let head = Head {
        key: change.key,
        commit: change.commit,
        position: mark.position(),
        database_pages: change.pages,
        unix_millis: mark.unix_millis,
        entries: 0,
        kind: change.kind,
        life: change.life,
        replaces: false,
        first: true,
        last: true,
    };
    if change.life == Life::Ends {
        writer.add(&Entry { head, payload: &[] })?;
    } else {
        let path = catalog::object_path(dir, manifest, change.key).unwrap_or_default();
        let failed = |error| Error::io(format_args!("reading {}", path.display()), &error);
        let file = disk.open(&path, OpenMode::Existing).map_err(failed)?;
        snapshot::add_pages(writer, head, 1..=change.pages, |page_no| {
            let mut page = ZERO_PAGE;
            let offset = u64::from(page_no - 1) * PAGE_BYTES as u64;
            file.read_at(&mut page, offset).map_err(failed)?;
            Ok(page)
        })?;
    }
    writer.end_object(Newest {
        commit: change.commit,
        pages: change.pages,
        alarm: match change.life {
            Life::Ends => KnownAlarm::Absent,
            // It is in the rows.
            Life::Begins | Life::Continues => KnownAlarm::Unknown,
        },
        since_base: match change.kind {
            Kind::Snapshot => 0,
            Kind::Commit => u64::from(change.pages) * PAGE_BYTES as u64,
        },
    });
    Ok(())
}
