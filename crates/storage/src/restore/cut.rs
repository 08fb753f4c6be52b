//! A cut: all objects as of one position of the log.
//!
//! Everything before the position is archived when the cut is taken, so the indexes of the runs list the objects of that moment, and
//! their histories have the states. Both stay readable while objects are written, created and deleted: what is later than the cut is
//! left out. It needs runs with a complete state of every object, and none that were lost or reduced to snapshots since.

use crate::archive::history::{History, StateAt};
use crate::archive::index::IndexEntry;
use crate::archive::lookup::Lookup;
use crate::bookmark::{self, Bookmark};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{CommitNo, Generation, Lsn, NamespaceNo, ObjectKey, Position};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// A position of the log at which every object can be exported. As text, it survives the process, and a mistyped one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    at: Position,
    timelines: Position,
    unix_millis: u64,
    /// How often the runs may have lost an object's state by then.
    lapses: u64,
}

/// A position that no timeline of a directory is above, at the time of a cut. An import of the cut's objects into another
/// directory begins timelines above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelinesEnd(pub(crate) Position);

/// An object as of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutObject {
    /// The object.
    pub key: ObjectKey,
    /// Its newest commit at the cut; `None` if its history does not have that.
    pub bookmark: Option<Bookmark>,
}

/// Some of the objects of a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutPage {
    /// The objects, in the order of their keys.
    pub objects: Vec<CutObject>,
    /// The next page begins after this object; `None` on the last page.
    pub next: Option<ObjectKey>,
}

impl Cut {
    /// Everything that was acknowledged before this time is in it, in milliseconds since 1970.
    pub fn unix_millis(&self) -> u64 {
        self.unix_millis
    }

    /// The position that no timeline of its objects is above.
    pub fn timelines(&self) -> TimelinesEnd {
        TimelinesEnd(self.timelines)
    }

    fn body(&self) -> String {
        let Self {
            at,
            timelines,
            unix_millis,
            lapses,
        } = self;
        let timelines = TimelinesEnd(*timelines);
        format!(
            "{}-{timelines}-{unix_millis:x}-{lapses:x}",
            TimelinesEnd(*at)
        )
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body();
        write!(f, "{body}-{:08x}", crc32c::crc32c(body.as_bytes()))
    }
}

impl FromStr for Cut {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || Error::input(format!("{text:?} is not a cut: copy the whole text"));
        let numbers = text
            .split('-')
            .map(|number| u64::from_str_radix(number, 16).ok());
        let numbers: Option<Vec<u64>> = numbers.collect();
        let Some([generation, lsn, raised, end, unix_millis, lapses, _]) = numbers.as_deref()
        else {
            return Err(refused());
        };
        let at = |generation: u64, lsn| Position::at(Generation(generation as u32), Lsn(lsn));
        let cut = Self {
            at: at(*generation, *lsn),
            timelines: at(*raised, *end),
            unix_millis: *unix_millis,
            lapses: *lapses,
        };
        // Formatting it again also checks the separators and the checksum.
        if cut.to_string() == text {
            Ok(cut)
        } else {
            Err(refused())
        }
    }
}

impl fmt::Display for TimelinesEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{:016x}", self.0.generation.0, self.0.lsn.0)
    }
}

impl FromStr for TimelinesEnd {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (generation, lsn) = text.split_once('-')?;
            let generation = u32::from_str_radix(generation, 16).ok()?;
            let lsn = u64::from_str_radix(lsn, 16).ok()?;
            Some(Self(Position::at(Generation(generation), Lsn(lsn))))
        };
        let end = parse().filter(|end| end.to_string() == text);
        end.ok_or_else(|| Error::input(format!("{text:?} is not the position of an export")))
    }
}

impl Engine {
    /// See [`crate::Store::cut`].
    pub(crate) fn cut(&self) -> Result<Cut> {
        // Before the look at the log: what was acknowledged before this time is in the log then.
        let unix_millis = self.shared.unix_millis();
        self.wait_durable(self.shared.log.appended())?;
        if self.archive.state().archived.is_some() {
            self.archive_everything()?;
        }
        let state = self.archive.state();
        let Some(archived) = state.archived else {
            return Err(Error::refused(
                "the archive is off, so objects cannot be read as of one moment while they are written: switch it on with \
                 archive.enabled, or stop the node and export from its directory",
            ));
        };
        if !state.is_complete() && !self.lacks_only_quarantined(state.lapses) {
            return Err(Error::refused(
                "the archive does not have a complete state of every object yet: try again when the metric abide_archive_complete is \
                 1, or stop the node and export from its directory",
            ));
        }
        let at = self.shared.log.position(Lsn(archived));
        Ok(Cut {
            at,
            timelines: self.shared.catalog.current().raise.of(at),
            unix_millis,
            lapses: state.lapses,
        })
    }

    /// The position that no timeline is above, of a store in which nothing is written.
    pub(crate) fn timelines_end(&self) -> TimelinesEnd {
        let end = self.shared.log.position(self.shared.log.appended());
        TimelinesEnd(self.shared.catalog.current().raise.of(end))
    }

    /// Returns whether the runs have a complete state of every object that is not quarantined.
    fn lacks_only_quarantined(&self, lapses: u64) -> bool {
        if !self.sweep.lock().has_looked_at_all(lapses) {
            return false;
        }
        let quarantined = self.objects.quarantined();
        let quarantined: BTreeSet<_> = quarantined.into_iter().map(|of| of.key).collect();
        self.archive.missing_objects().is_subset(&quarantined)
    }

    /// See [`crate::Store::cut_objects`].
    pub(crate) fn cut_objects(
        &self,
        cut: &Cut,
        namespace: Option<NamespaceNo>,
        after: Option<ObjectKey>,
        limit: usize,
    ) -> Result<CutPage> {
        loop {
            let page = self.page_of_cut(cut, namespace, after, limit)?;
            // After the indexes were read: it says what they lacked.
            self.must_be_kept(cut)?;
            if let Some(page) = page {
                return Ok(page);
            }
        }
    }

    /// Returns an error if runs with states of the cut are gone.
    fn must_be_kept(&self, cut: &Cut) -> Result<()> {
        let state = self.archive.state();
        // A base has the last states of its objects, and nothing of those that were deleted by its end.
        let is_folded = |end: u64| end > cut.at.lsn.get();
        let is_kept = state.archived.is_some()
            && state.lapses == cut.lapses
            && !state.runs.iter().any(|run| run.base && is_folded(run.to));
        if is_kept {
            return Ok(());
        }
        Err(Error::refused(
            "the archive has lost or dropped history since the export began: begin it again; if it takes longer than history is kept, \
             raise archive.retention or archive.max_bytes",
        ))
    }

    /// `None` if a merge has replaced a run in the meantime.
    fn page_of_cut(
        &self,
        cut: &Cut,
        namespace: Option<NamespaceNo>,
        after: Option<ObjectKey>,
        limit: usize,
    ) -> Result<Option<CutPage>> {
        let manifest = self.shared.catalog.current();
        let damaged = &manifest.archive.damaged;
        let lacking = self.archive.missing_objects();
        let is_wanted = |key: &ObjectKey| {
            namespace.is_none_or(|only| key.namespace == only)
                && after.is_none_or(|after| *key > after)
                && manifest.unique_key(key.namespace).is_some()
        };
        let mut histories = Lookup::intact(&self.archive);
        let mut newest = self.archive.newest_entries_without(damaged);
        let first = after.map_or(0, |after| after.id[0]);
        newest.skip_to(first);
        let (mut objects, mut next) = (Vec::new(), None);
        'all: for byte in first..=u8::MAX {
            let found = newest.with_first_byte(byte);
            let found = found.into_iter().filter(|(key, _)| is_wanted(key));
            let mut found: BTreeMap<_, _> = found.map(|(key, entry)| (key, Some(entry))).collect();
            let lacking = lacking
                .iter()
                .filter(|key| key.id[0] == byte && is_wanted(key));
            found.extend(lacking.map(|key| (*key, None)));
            for (key, entry) in found {
                if objects.len() == limit {
                    next = objects.last().map(|object: &CutObject| object.key);
                    break 'all;
                }
                objects.extend(as_of(cut, key, entry, &mut histories)?);
            }
        }
        let unread = newest.unread().iter();
        let mut unread = unread.filter(|(number, _)| self.archive.has(*number));
        match unread.next() {
            Some((_, error)) => Err(error.clone()),
            None if newest.unread().is_empty() => {
                histories.must_have_read_all()?;
                Ok(Some(CutPage { objects, next }))
            }
            None => Ok(None),
        }
    }
}

/// An object as of a cut; `None` if there was none. `entry` is its newest one, if the runs have its states.
fn as_of(
    cut: &Cut,
    key: ObjectKey,
    entry: Option<IndexEntry>,
    histories: &mut Lookup<'_>,
) -> Result<Option<CutObject>> {
    let state = match entry {
        None => StateAt::Unknown,
        Some(entry) if entry.last <= cut.at => match entry.newest.pages {
            0 => StateAt::Absent,
            _ => StateAt::Commit(entry.newest.commit),
        },
        Some(_) => History::of(key, histories.all(key), Vec::new()).state_at(cut.at)?,
    };
    let commit = match state {
        StateAt::Absent => return Ok(None),
        StateAt::Commit(commit) => Some(commit),
        StateAt::Unknown => None,
    };
    let bookmark = |commit: CommitNo| Bookmark {
        position: cut.at,
        commit,
        object: bookmark::mark(key),
    };
    Ok(Some(CutObject {
        key,
        bookmark: commit.map(bookmark),
    }))
}
