//! Reads the history of one object: the commit at a time, and the pages at a commit.
//!
//! A bookmark's commit is found by its position and verified by its number. A bookmark of another object,
//! or of a commit that was lost in a crash before it was durable, does not match any commit of the history.

use super::Archive;
use super::chain::Chain;
use super::entry::{Entry, Head, Kind};
use super::image::Image;
use super::index::IndexEntry;
use super::lookup::Lookup;
use super::run::RunReader;
use super::stream::Stream;
use crate::bookmark::{self, Bookmark};
use crate::error::{Error, Result};
use crate::ident::{CommitNo, Life, ObjectKey, Position};
use crate::manifest::ArchiveHole;
use crate::timing::time;

/// The archive's content for one object: a section for each run that contains it, oldest first.
pub(crate) struct History {
    key: ObjectKey,
    sections: Vec<(RunReader, IndexEntry)>,
    /// Why a run was left out. Anything it held of the object is missing.
    lost: Option<Error>,
    /// The lost parts of the history, of all objects.
    holes: Vec<ArchiveHole>,
}

/// What a history says of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateAt {
    /// There was no object.
    Absent,
    /// The newest commit was this one.
    Commit(CommitNo),
    /// The history begins later.
    Unknown,
}

impl History {
    /// What these sections have of an object, oldest first.
    pub(crate) fn of(
        key: ObjectKey,
        sections: Vec<(RunReader, IndexEntry)>,
        holes: Vec<ArchiveHole>,
    ) -> Self {
        Self {
            key,
            sections,
            lost: None,
            holes,
        }
    }

    /// Why a run was left out; `None` if none was.
    pub(crate) fn lost(&self) -> Option<&Error> {
        self.lost.as_ref()
    }

    /// Passes the entries of a section to `take`, in order, until it returns false.
    fn entries(
        &self,
        section: usize,
        mut take: impl FnMut(&Entry<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let (reader, index) = &self.sections[section];
        let mut stream = Stream::object(reader.clone(), *index)?;
        while let Some(entry) = stream.current() {
            if !take(&entry)? {
                return Ok(false);
            }
            stream.advance()?;
        }
        Ok(true)
    }

    /// Where to start for a state at `target`: the section and position of the newest snapshot at or before it. `None`:
    /// at the object's first commit.
    fn base(&self, target: &Bookmark) -> Result<Option<(usize, Position)>> {
        for (section, (_, index)) in self.sections.iter().enumerate().rev() {
            if index.first_snapshot > target.position {
                continue;
            }
            let mut base = None;
            self.entries(section, |entry| {
                let head = &entry.head;
                let usable = head.position <= target.position;
                if head.kind == Kind::Snapshot && head.first && usable {
                    base = Some((section, head.position));
                }
                Ok(usable)
            })?;
            if base.is_some() {
                return Ok(base);
            }
        }
        Ok(None)
    }

    /// Passes to `take`, in order, the entries that make up the state at `target`. `take` returns the state reached so
    /// far.
    fn replay(
        &self,
        target: &Bookmark,
        mut take: impl FnMut(&Entry<'_>) -> Result<Chain>,
    ) -> Result<Chain> {
        let (from, base) = self.base(target)?.unwrap_or((0, Position::ZERO));
        let mut chain = Chain::Nothing;
        for section in from..self.sections.len() {
            let more = self.entries(section, |entry| {
                let head = &entry.head;
                let before_base =
                    base > Position::ZERO && (head.position, head.kind) < (base, Kind::Snapshot);
                // A snapshot may be ahead of the commits in the next section.
                let included = chain.at().is_some_and(|at| head.position <= at.position);
                let reached = head.position <= target.position;
                // A bookmark may have been taken just before its commit.
                let coming = head.commit == target.commit
                    && head.position.generation <= target.position.generation
                    && chain.then(head) != Chain::Broken;
                match head.kind {
                    _ if before_base => {}
                    Kind::Commit if included => {}
                    _ if reached => chain = take(entry)?,
                    Kind::Commit if coming => chain = take(entry)?,
                    Kind::Commit => return Ok(false),
                    Kind::Snapshot => {}
                }
                Ok(true)
            })?;
            if !more {
                break;
            }
        }
        Ok(chain)
    }

    /// Returns whether the state at `target` is complete.
    pub(crate) fn has(&self, target: &Bookmark) -> Result<bool> {
        let mut chain = Chain::Nothing;
        let reached = self.replay(target, |entry| {
            chain = chain.then(&entry.head);
            Ok(chain)
        })?;
        Ok(shows(&reached, target))
    }

    /// The first restorable state.
    fn begin(&self) -> Result<Option<Head>> {
        let mut first = None;
        for section in 0..self.sections.len() {
            self.entries(section, |entry| {
                let head = entry.head;
                let is_snapshot = head.kind == Kind::Snapshot;
                let base = is_snapshot != head.replaces || head.life == Life::Begins;
                if head.first && base {
                    first = Some(head);
                }
                Ok(first.is_none())
            })?;
            if first.is_some() {
                break;
            }
        }
        Ok(first)
    }

    /// What there was at a position. Reads the entries of one section, and not their pages.
    pub(crate) fn state_at(&self, position: Position) -> Result<StateAt> {
        for (section, (_, index)) in self.sections.iter().enumerate().rev() {
            if index.first > position {
                continue;
            }
            let mut found = None;
            self.entries(section, |entry| {
                let head = entry.head;
                // A new state is that of the commit which continues it.
                let is_state = head.last && !(head.kind == Kind::Snapshot && head.replaces);
                if is_state && head.position <= position {
                    found = Some(head);
                }
                Ok(head.position <= position)
            })?;
            match found {
                Some(head) if head.life == Life::Ends => return Ok(StateAt::Absent),
                Some(head) => return Ok(StateAt::Commit(head.commit)),
                None => {}
            }
        }
        Ok(match self.begin()? {
            Some(first) if first.life == Life::Begins => StateAt::Absent,
            _ => StateAt::Unknown,
        })
    }

    /// The last commit or snapshot at or before this time, and the first commit after it.
    pub(crate) fn around(&self, unix_millis: u64) -> Result<Option<(Head, Option<Head>)>> {
        for (section, (_, index)) in self.sections.iter().enumerate().rev() {
            if index.first_millis > unix_millis {
                continue;
            }
            let (mut found, mut next): (Option<Head>, Option<Head>) = (None, None);
            self.entries(section, |entry| {
                let head = entry.head;
                if head.last && head.unix_millis <= unix_millis {
                    (found, next) = (Some(head), None);
                } else if next.is_none() && found.is_some_and(|found| follows(&head, &found)) {
                    next = Some(head);
                }
                Ok(true)
            })?;
            let Some(found) = found else {
                continue;
            };
            for later in section + 1..self.sections.len() {
                if next.is_some() {
                    break;
                }
                self.entries(later, |entry| {
                    next = Some(entry.head).filter(|head| follows(head, &found));
                    Ok(next.is_none())
                })?;
            }
            return Ok(Some((found, next)));
        }
        Ok(None)
    }

    /// The error for a missing state: what is missing may have been in a run that was left out.
    pub(crate) fn refused(&self, why: impl std::fmt::Display) -> Error {
        self.lost.clone().unwrap_or_else(|| {
            Error::input(format!(
                "the object {} cannot be restored to that point: {why}",
                self.key
            ))
        })
    }

    /// The newest hole that overlaps the range between two positions.
    pub(crate) fn hole(&self, from: Position, to: Position) -> Option<&ArchiveHole> {
        let mut newest = self.holes.iter().rev();
        newest.find(|hole| hole.is_between(from, to))
    }

    /// The error for a missing range of positions.
    pub(crate) fn missing(
        &self,
        why: impl std::fmt::Display,
        from: Position,
        to: Position,
    ) -> Error {
        match self.hole(from, to) {
            Some(hole) => self.refused(format_args!("{why}: {hole}")),
            None => self.refused(why),
        }
    }

    /// The error for a time before the history begins.
    pub(crate) fn too_early(&self) -> Result<Error> {
        Ok(match self.begin()? {
            None => self.refused("the archive has no history of it"),
            Some(first) if first.life == Life::Begins => {
                let at = time(first.unix_millis);
                self.refused(format_args!("its first commit was at {at}"))
            }
            Some(first) => {
                let at = time(first.unix_millis);
                self.refused(format_args!("its history in the archive begins at {at}"))
            }
        })
    }

    /// The error for an incomplete state.
    pub(crate) fn incomplete(&self, target: &Bookmark) -> Result<Error> {
        match self.begin()? {
            Some(begin) if begin.position <= target.position => Ok(self.missing(
                format_args!("a part of its history before {target} is missing"),
                begin.position,
                target.position,
            )),
            _ => self.too_early(),
        }
    }
}

/// Returns whether an entry is a later commit than another, or says that there has been one.
fn follows(head: &Head, other: &Head) -> bool {
    let is_commit = head.kind == Kind::Commit || head.life == Life::Ends;
    is_commit && head.position > other.position
}

/// Returns whether a chain has reached a bookmark's commit.
pub(crate) fn shows(chain: &Chain, target: &Bookmark) -> bool {
    match chain {
        Chain::At(head) if head.life != Life::Ends => head.commit == target.commit,
        // There was no object.
        Chain::At(_) | Chain::Nothing => target.commit == CommitNo(0),
        _ => false,
    }
}

impl Archive {
    /// The history of an object, without that in damaged runs.
    ///
    /// # Errors
    /// A run cannot be read at the moment.
    pub(crate) fn history(&self, key: ObjectKey) -> Result<History> {
        let mut lookup = Lookup::new(self);
        let sections = lookup.all(key);
        lookup.must_be_certain()?;
        Ok(History {
            key,
            sections,
            lost: lookup.into_lost(),
            holes: self.state().holes,
        })
    }

    /// The pages of an object at a bookmark, if the archive has everything they are built from.
    pub(crate) fn image(&self, key: ObjectKey, at: &Bookmark) -> Option<Image> {
        let built = self.history(key).and_then(|of| self.build(&of, at));
        let (image, reached) = built.ok()?;
        shows(&reached, at).then_some(image)
    }

    /// Builds the pages of an object as of its newest entry. `None` if the archive does not have its whole state.
    ///
    /// # Errors
    /// A run, or the scratch file, cannot be read or written.
    pub(crate) fn newest_image(&self, newest: &IndexEntry) -> Result<Option<Image>> {
        let history = self.history(newest.key)?;
        if let Some(error) = history.lost() {
            return Err(error.clone());
        }
        let at = Bookmark {
            position: newest.last,
            commit: newest.newest.commit,
            object: bookmark::mark(newest.key),
        };
        let (image, reached) = self.build(&history, &at)?;
        let is_whole = |head: &Head| head.commit == at.commit && head.life != Life::Ends;
        Ok(reached.at().is_some_and(is_whole).then_some(image))
    }

    /// Builds the pages of an object at a bookmark, as far as its history goes.
    pub(crate) fn build(&self, history: &History, target: &Bookmark) -> Result<(Image, Chain)> {
        let mut image = self.new_image();
        let reached = history.replay(target, |entry| {
            image.apply(entry)?;
            Ok(image.chain())
        })?;
        Ok((image, reached))
    }
}
