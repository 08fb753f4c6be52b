//! Looking into the past of one object: the commit at a time, and the pages at a commit.
//!
//! A bookmark's commit is found by its position in the log and proved by its number and epoch: a bookmark of another
//! object, or of a commit that a crash has taken back before it was durable, names no commit of the history.

use super::bookmark::{self, Bookmark};
use super::entry::{Head, Kind};
use super::image::Image;
use super::index::IndexEntry;
use super::run::RunReader;
use super::stream::{Merged, Stream};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{CommitNo, Lsn, ObjectKey};
use crate::limits::RESTORE_PAGES_IN_MEMORY;

/// What the archive has of one object: a section for each run that knows it, oldest first.
struct History {
    key: ObjectKey,
    sections: Vec<(RunReader, IndexEntry)>,
}

impl History {
    fn stream(&self, section: usize) -> Result<Stream> {
        let (reader, index) = &self.sections[section];
        Stream::object(reader.clone(), *index)
    }

    /// Hands over the headers of a section, in order.
    fn heads(&self, section: usize, mut take: impl FnMut(&Head)) -> Result<()> {
        let mut stream = self.stream(section)?;
        while let Some(entry) = stream.current() {
            take(&entry.head);
            stream.advance()?;
        }
        Ok(())
    }

    /// Where to begin for a state at `target`: the section and position of the newest snapshot that is not behind it.
    /// `None`: at the object's first commit.
    fn base(&self, target: &Bookmark) -> Result<Option<(usize, Lsn)>> {
        for (section, (_, index)) in self.sections.iter().enumerate().rev() {
            if index.first_snapshot > target.lsn {
                continue;
            }
            let mut base = None;
            self.heads(section, |head| {
                let usable = head.lsn <= target.lsn && head.epoch <= target.epoch;
                if head.kind == Kind::Snapshot && head.first && usable {
                    base = Some((section, head.lsn));
                }
            })?;
            if base.is_some() {
                return Ok(base);
            }
        }
        Ok(None)
    }

    /// The first state that can be restored.
    fn begin(&self) -> Result<Option<Head>> {
        let mut first = None;
        for section in 0..self.sections.len() {
            self.heads(section, |head| {
                let base = head.kind == Kind::Snapshot || head.commit == CommitNo(1);
                if first.is_none() && head.first && base {
                    first = Some(*head);
                }
            })?;
            if first.is_some() {
                break;
            }
        }
        Ok(first)
    }

    fn refused(&self, why: impl std::fmt::Display) -> Error {
        Error::input(format!(
            "the object {} cannot be restored so: {why}",
            self.key
        ))
    }

    /// Why there is nothing at or before a moment.
    fn too_early(&self) -> Result<Error> {
        Ok(match self.begin()? {
            None => self.refused("the archive has nothing of it"),
            Some(first) if first.kind == Kind::Commit => {
                let at = time(first.unix_millis);
                self.refused(format_args!(
                    "its first commit was at {at}; there was nothing before"
                ))
            }
            Some(first) => {
                let at = time(first.unix_millis);
                self.refused(format_args!("its history in the archive begins at {at}"))
            }
        })
    }
}

/// A time as RFC 3339 has it.
fn time(unix_millis: u64) -> String {
    jiff::Timestamp::from_millisecond(unix_millis.cast_signed())
        .map_or_else(|_| format!("{unix_millis} ms"), |time| time.to_string())
}

impl Engine {
    /// Takes a checkpoint if anything is not archived yet.
    pub(crate) fn archive_everything(&self) -> Result<()> {
        let archived = self.manifest.lock().archive.archived;
        if archived.is_some_and(|archived| archived < self.log.appended().0) {
            self.checkpoint()?;
        }
        Ok(())
    }

    fn history(&self, key: ObjectKey) -> Result<History> {
        let mut sections = Vec::new();
        for mut reader in self.archive_readers()? {
            if let Some(index) = reader.find(key)? {
                sections.push((reader, index));
            }
        }
        Ok(History { key, sections })
    }

    /// The bookmark of an object's newest commit at or before a time. Should clocks have gone backwards, it is the last
    /// of all whose time is not later.
    pub(crate) fn bookmark_for_time(&self, key: ObjectKey, unix_millis: u64) -> Result<Bookmark> {
        self.archive_everything()?;
        let history = self.history(key)?;
        let mut found: Option<Head> = None;
        for (section, (_, index)) in history.sections.iter().enumerate().rev() {
            if index.first_millis > unix_millis {
                continue;
            }
            history.heads(section, |head| {
                if head.last && head.unix_millis <= unix_millis {
                    found = Some(*head);
                }
            })?;
            if found.is_some() {
                break;
            }
        }
        let begin = history.begin()?;
        let restorable = found.filter(|found| begin.is_some_and(|begin| begin.lsn <= found.lsn));
        match restorable {
            Some(head) => Ok(Bookmark {
                epoch: head.epoch,
                lsn: head.lsn,
                commit: head.commit,
                object: bookmark::mark(key),
            }),
            None => Err(history.too_early()?),
        }
    }

    /// Reads the whole archive and returns how many entries it has. Damage is an error that names the file.
    pub(crate) fn verify_archive(&self) -> Result<u64> {
        let mut entries = 0;
        for reader in self.archive_readers()? {
            let Some(mut stream) = Stream::run(reader)? else {
                continue;
            };
            while stream.current().is_some() {
                entries += 1;
                stream.advance()?;
            }
        }
        Ok(entries)
    }

    /// The pages of an object at a bookmark.
    pub(crate) fn image_at(&self, key: ObjectKey, target: &Bookmark) -> Result<Image> {
        target.must_be_of(key)?;
        self.archive_everything()?;
        let history = self.history(key)?;
        let disk = self.disk.clone();
        let mut image = Image::new(disk, self.archive.scratch(), RESTORE_PAGES_IN_MEMORY);
        let (from, base) = history.base(target)?.unwrap_or((0, Lsn::ZERO));
        let streams = (from..history.sections.len()).map(|section| history.stream(section));
        let mut merged = Merged::new(streams.collect::<Result<_>>()?);
        while let Some(entry) = merged.current() {
            let head = &entry.head;
            let before_base = (head.lsn, head.kind) < (base, Kind::Snapshot);
            let reached = head.lsn <= target.lsn && head.epoch <= target.epoch;
            // A bookmark may have been taken just before its commit.
            let coming = head.commit == target.commit
                && head.epoch <= target.epoch
                && image.next_commit() == Some(head.commit);
            match head.kind {
                _ if before_base && base > Lsn::ZERO => {}
                _ if reached => image.apply(&entry)?,
                Kind::Commit if coming => image.apply(&entry)?,
                Kind::Commit => break,
                Kind::Snapshot => {}
            }
            merged.advance()?;
        }
        match image.at() {
            Some(at) if at.commit == target.commit => Ok(image),
            None if target.commit == CommitNo(0) && image.next_commit() == Some(CommitNo(1)) => {
                image.begin(&self.template);
                Ok(image)
            }
            Some(_) => Err(history.refused(format_args!(
                "{target} names no commit of it: the commit was never durable"
            ))),
            None => match history.begin()? {
                Some(begin) if begin.lsn <= target.lsn => Err(history.refused(format_args!(
                    "a part of its history before {target} is missing"
                ))),
                _ => Err(history.too_early()?),
            },
        }
    }
}
