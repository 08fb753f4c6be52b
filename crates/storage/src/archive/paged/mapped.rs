//! What a run with a map has of an object.

use super::blocks::Blocks;
use crate::archive::entry::Entry;
use crate::archive::page_map::{HotPage, PageMap, Place};
use crate::archive::run::RunReader;
use crate::delta;
use crate::error::Result;
use crate::ident::{CommitNo, ObjectKey};

/// See the module.
pub(super) struct Mapped {
    run: RunReader,
    map: PageMap,
    /// Only commits after this one count: what is before it is in an earlier part.
    after: CommitNo,
}

impl Mapped {
    /// What a run has after a commit, or from its base on. `None` if a commit between is missing.
    pub(super) fn continuing(
        run: RunReader,
        map: PageMap,
        after: Option<CommitNo>,
    ) -> Option<Self> {
        let after = match after {
            // A base in a later part would be the first part.
            Some(after) => Some(after).filter(|after| !map.first.is_after(after.next()))?,
            None if map.snapshot > 0 => map.first,
            // The base is the first commit.
            None => CommitNo(map.first.0.wrapping_sub(1)),
        };
        Some(Self { run, map, after })
    }

    /// The commit that it ends with, and the size that this leaves; `None` if all of it is in earlier parts.
    pub(super) fn reached(&self) -> Option<(CommitNo, u32)> {
        let has_news = self.map.last.is_after(self.after) || self.map.has_base;
        has_news.then_some((self.map.last, self.map.size))
    }

    /// Whether nothing before it counts for a page.
    pub(super) fn is_whole(&self, page_no: u32) -> bool {
        let map = &self.map;
        let mut changes = map.changes(page_no, self.after, None);
        map.has_base
            || map.least(self.after) < page_no
            || map.hot(page_no, self.after).is_some_and(HotPage::is_full)
            || changes.next().is_some_and(|(_, is_full)| is_full)
    }

    /// Adds what it has of a page, newest first. Returns whether nothing before it counts.
    pub(super) fn look_for(
        &self,
        key: ObjectKey,
        page_no: u32,
        blocks: &Blocks,
        changes: &mut Vec<Vec<u8>>,
    ) -> Result<bool> {
        let hot = self.map.hot(page_no, self.after);
        changes.extend(hot.map(|hot| hot.entry().to_vec()));
        if hot.is_some_and(HotPage::is_full) {
            return Ok(true);
        }
        for (place, is_full) in self.map.changes(page_no, self.after, hot).rev() {
            changes.push(self.change(key, place, page_no, blocks)?);
            if is_full {
                return Ok(true);
            }
        }
        if self.map.least(self.after) < page_no {
            return Ok(true);
        }
        if self.map.has_base
            && let Some(place) = self.map.in_snapshot(page_no)
        {
            changes.push(self.change(key, place, page_no, blocks)?);
        }
        Ok(self.map.has_base)
    }

    /// The change of a page in an entry.
    fn change(
        &self,
        key: ObjectKey,
        place: Place,
        page_no: u32,
        blocks: &Blocks,
    ) -> Result<Vec<u8>> {
        let damaged = || {
            self.run
                .damaged(format_args!("an entry with page {page_no}"))
        };
        let block = blocks.read(&self.run, place.block)?;
        let entry = block.get(place.in_block as usize..).and_then(Entry::decode);
        let (Entry { head, payload }, _) = entry.ok_or_else(damaged)?;
        if head.key != key || head.commit != place.commit {
            return Err(damaged());
        }
        let mut rest = payload;
        while let Some((change, more)) = delta::Entry::decode(rest) {
            if change.page_no == page_no {
                return Ok(rest[..rest.len() - more.len()].to_vec());
            }
            rest = more;
        }
        Err(damaged())
    }
}
