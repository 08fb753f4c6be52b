//! What is kept in memory of an object, because the run has no map of it: commits, or a small object from its beginning on.

use crate::archive::chain::Chain;
use crate::archive::entry::{Entry, Head, Kind};
use crate::archive::index::IndexEntry;
use crate::archive::run::RunReader;
use crate::archive::stream::Stream;
use crate::delta;
use crate::error::Result;
use crate::ident::{CommitNo, Life};
use crate::limits::MAX_LARGE_CHANGES;
use rustc_hash::FxHashMap;

/// See the module.
pub(super) struct Loaded {
    /// The entries of each page since its newest full image.
    pages: FxHashMap<u32, Vec<Vec<u8>>>,
    bytes: usize,
    pub(super) size: u32,
    /// The least size that a commit has left.
    least: u32,
    /// Nothing before it counts.
    is_base: bool,
}

impl Loaded {
    /// Reads the commits of an object in a run, and returns them with the number of the last: those after the commit `reached`, which
    /// left the object with that number of pages, or all from its base on. `None` if one is missing, if they are too many, or if one
    /// continues a replacement.
    pub(super) fn read(
        run: RunReader,
        index: IndexEntry,
        reached: Option<(CommitNo, u32)>,
    ) -> Result<Option<(CommitNo, Self)>> {
        let mut loaded = Self {
            pages: FxHashMap::default(),
            bytes: 0,
            size: reached.map_or(0, |(_, size)| size),
            least: u32::MAX,
            is_base: reached.is_none(),
        };
        let after = reached.map(|(commit, _)| commit);
        let mut chain = Chain::Nothing;
        let mut stream = Stream::object(run, index)?;
        while let Some(entry) = stream.current() {
            let head = &entry.head;
            if after.is_none_or(|after| head.commit.is_after(after)) {
                let continues = after.is_some_and(|after| head.commit == after.next());
                chain = match chain {
                    Chain::Nothing if head.first && continues => Chain::begun_with(head),
                    chain => chain.then(head),
                };
                if chain == Chain::Broken || head.replaces {
                    return Ok(None);
                }
                // It has all pages, or none is left.
                if head.first && (head.kind == Kind::Snapshot || head.life != Life::Continues) {
                    loaded.pages.clear();
                    loaded.is_base = true;
                }
                if !loaded.take(&entry) {
                    return Ok(None);
                }
            }
            stream.advance()?;
        }
        let commit = match chain {
            Chain::Nothing => after,
            chain => chain.at().map(|head: &Head| head.commit),
        };
        Ok(commit.map(|commit| (commit, loaded)))
    }

    /// Returns false if it has too much.
    fn take(&mut self, entry: &Entry<'_>) -> bool {
        self.bytes += entry.payload.len();
        if self.bytes > MAX_LARGE_CHANGES {
            return false;
        }
        let mut rest = entry.payload;
        while let Some((change, more)) = delta::Entry::decode(rest) {
            let of_page = self.pages.entry(change.page_no).or_default();
            if change.full {
                of_page.clear();
            }
            of_page.push(rest[..rest.len() - more.len()].to_vec());
            rest = more;
        }
        let size = entry.head.database_pages;
        if entry.head.last {
            if size < self.size {
                self.pages.retain(|page_no, _| *page_no <= size);
                self.least = self.least.min(size);
            }
            self.size = size;
        }
        true
    }

    /// Adds what it has of a page, newest first. Returns whether nothing before it counts.
    pub(super) fn look_for(&self, page_no: u32, changes: &mut Vec<Vec<u8>>) -> bool {
        let of_page = self.pages.get(&page_no).map_or(&[][..], |of| of);
        changes.extend(of_page.iter().rev().cloned());
        let oldest = of_page
            .first()
            .and_then(|bytes| delta::Entry::decode(bytes));
        self.is_base || oldest.is_some_and(|(change, _)| change.full) || self.least < page_no
    }
}
