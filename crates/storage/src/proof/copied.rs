//! A copy of the archive, on a disk from which it is read as far as it is needed.

use super::fingerprint::{Fingerprint, checksum};
use crate::archive::history::{History, shows};
use crate::archive::newest::NewestEntries;
use crate::archive::run::RunReader;
use crate::archive::{Archive, DIR};
use crate::bookmark::Bookmark;
use crate::disk::Disk;
use crate::engine::Engine;
use crate::error::Result;
use crate::ident::{CommitNo, Lsn, ObjectKey, Position};
use crate::manifest::Manifest;
use std::path::Path;
use std::sync::Arc;

/// The most page numbers that are told.
const TOLD_PAGES: usize = 20;

/// The runs and the manifest of a copy of a node's archive ([`HistoryCopy`](crate::HistoryCopy)), beside that node. Nothing is
/// written but a scratch file for an object with many pages, in the node's own archive.
pub struct CopiedArchive {
    archive: Arc<Archive>,
    manifest: Manifest,
    /// Oldest first, without those that were damaged when it was copied.
    runs: Vec<RunReader>,
}

/// How the state of an object in a copy compares with a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Comparison {
    /// The copy has the commit, and each page is the same; or both have no object.
    Same,
    /// The copy ends before the commit: ask a later one.
    NotYet,
    /// The copy says that it does not have everything, and this is missing; or the object's class was deleted since.
    KnownGap,
    /// The copy lacks the commit, although it says that it has everything before its end: why.
    Missing(String),
    /// The commit is there with other pages.
    Differs {
        /// How many pages the copy has, and the object.
        sizes: [u32; 2],
        /// How many pages differ.
        count: u32,
        /// The numbers of the first of them, which begin at 1.
        pages: Vec<u32>,
    },
}

impl std::fmt::Debug for CopiedArchive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopiedArchive").finish_non_exhaustive()
    }
}

impl Engine {
    /// See [`crate::Store::open_copy`].
    pub(crate) fn open_copy(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        manifest: &[u8],
    ) -> Result<CopiedArchive> {
        let manifest = Manifest::decode(manifest, &dir.join("MANIFEST"))?;
        let dir = dir.join(DIR);
        let archive = &manifest.archive;
        let whole = archive.runs.iter();
        let whole = whole.filter(|run| !archive.damaged.contains(&run.number));
        let runs = whole.map(|run| {
            let reader = RunReader::open(disk, &dir, run)?;
            reader.verify_length().map(|()| reader)
        });
        Ok(CopiedArchive {
            archive: self.archive.clone(),
            runs: runs.collect::<Result<_>>()?,
            manifest,
        })
    }
}

impl CopiedArchive {
    /// It has the log up to this position.
    pub fn end(&self) -> Lsn {
        self.manifest.redo()
    }

    /// The objects of the copy whose ids begin with this byte, in order. Reads the indexes of all runs there.
    ///
    /// # Errors
    /// A run is damaged ([`ErrorKind::Damaged`](crate::ErrorKind::Damaged)), or cannot be read.
    pub fn objects(&self, byte: u8) -> Result<Vec<ObjectKey>> {
        let mut newest = NewestEntries::of(self.runs.iter().cloned());
        newest.skip_to(byte);
        let found = newest.with_first_byte(byte);
        if let Some((_, error)) = newest.unread().first() {
            return Err(error.clone());
        }
        let there = found.into_values().filter(|entry| {
            entry.newest.pages > 0 && !self.manifest.is_deleted(entry.key.namespace)
        });
        let mut keys: Vec<_> = there.map(|entry| entry.key).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// Reads an object's state at the commit of a fingerprint, and compares all pages.
    ///
    /// # Errors
    /// A run is damaged ([`ErrorKind::Damaged`](crate::ErrorKind::Damaged)), or cannot be read.
    pub fn compare(&mut self, of: &Fingerprint) -> Result<Comparison> {
        let (key, at) = (of.key, of.at);
        if self.manifest.is_deleted(key.namespace) {
            let is_absent = at.commit == CommitNo(0);
            return Ok(if is_absent {
                Comparison::Same
            } else {
                Comparison::KnownGap
            });
        }
        let mut sections = Vec::new();
        for run in &mut self.runs {
            let found = run.find(key)?;
            sections.extend(found.map(|index| (run.clone(), index)));
        }
        let newest = sections.last().map(|(_, index)| index.newest);
        let newest = newest.filter(|newest| newest.pages > 0);
        let newest = newest.map_or(CommitNo(0), |newest| newest.commit);
        // A state may be older than the bookmark of it: that of an object without commits for long is of the end of the log.
        let target = if newest == at.commit {
            let position = Position::MAX;
            Bookmark { position, ..at }
        } else if self.end() < of.end() {
            return Ok(Comparison::NotYet);
        } else {
            at
        };
        if newest == at.commit && newest == CommitNo(0) {
            return Ok(Comparison::Same);
        }
        let history = History::of(key, sections, self.manifest.archive.holes.clone());
        let (image, reached) = self.archive.build(&history, &target)?;
        if !shows(&reached, &target) {
            let from = reached.at().map_or(Position::ZERO, |head| head.position);
            let is_known = history.hole(from, target.position).is_some();
            if is_known || !self.manifest.archive.is_complete() {
                return Ok(Comparison::KnownGap);
            }
            let found = match reached.at() {
                Some(head) => format!("its history leads to commit {}", head.commit.0),
                None => "its history is not whole".to_owned(),
            };
            return Ok(Comparison::Missing(found));
        }
        let (size, expected) = (image.size(), of.pages());
        let mut differ = Vec::new();
        let mut count = size.abs_diff(expected);
        for (page_no, expected) in (1..=size).zip(&of.pages) {
            let page = image.page(page_no)?;
            if checksum(page, page_no, at.commit, size) != *expected {
                count += 1;
                if differ.len() < TOLD_PAGES {
                    differ.push(page_no);
                }
            }
        }
        if count == 0 {
            return Ok(Comparison::Same);
        }
        Ok(Comparison::Differs {
            sizes: [size, expected],
            count,
            pages: differ,
        })
    }
}
