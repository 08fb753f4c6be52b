//! Makes page maps while a run is written.

use super::followed::Followed;
use super::{Change, Cut, FULL, HotPages, PageMap, Place, list};
use crate::archive::block::Packer;
use crate::archive::chain::Chain;
use crate::archive::entry::{Entry, Kind};
use crate::delta;
use crate::ident::{CommitNo, Life, ObjectKey, Page};
use crate::limits::{
    MAPPED_PAGES, MAX_HOT_BYTES, MAX_HOT_PAGES, MAX_MAPPED_CHANGES, OUTLINED_PAGES, PAGE_BYTES,
};
use std::io;

/// The most bytes of a hot page: a full image with its header.
const LARGEST_HOT_PAGE: usize = PAGE_BYTES + 16;

/// Follows the entries of objects while a run is written. Until the positions of blocks are known, places hold their numbers.
#[derive(Default)]
pub(crate) struct Mapper {
    /// Of the object that is being written.
    map: Option<PageMap>,
    chain: Chain,
    followed: Followed,
    pub(super) done: Vec<(ObjectKey, PageMap)>,
    /// Of the hot pages in all maps.
    hot_bytes: usize,
}

impl Mapper {
    /// One more entry of an object, in this block.
    pub(crate) fn add(&mut self, entry: &Entry<'_>, block: u64, in_block: usize) {
        let head = &entry.head;
        let is_snapshot = head.kind == Kind::Snapshot;
        // One that continues a replacement has not all pages.
        let is_base = is_snapshot || (head.life == Life::Begins && !head.replaces);
        let is_first = self.chain == Chain::Nothing;
        // What the run has first may continue what others have.
        let chain = match self.chain.then(head) {
            Chain::Broken if is_first && head.first && !head.replaces => Chain::begun_with(head),
            chain => chain,
        };
        self.chain = chain;
        if head.first && (is_first || is_base) {
            self.followed.clear();
            self.map = Some(PageMap {
                has_base: is_base,
                snapshot: if is_snapshot { head.database_pages } else { 0 },
                first: head.commit,
                last: head.commit,
                size: head.database_pages,
                places: Vec::new(),
                starts: Vec::new(),
                cuts: Vec::new(),
                changes: Vec::new(),
                hot: HotPages::default(),
            });
        }
        let is_lost = chain == Chain::Broken || head.life == Life::Ends;
        let Some(map) = self.map.as_mut().filter(|_| !is_lost) else {
            self.map = None;
            return;
        };
        let number = map.places.len() as u32;
        map.places.push(Place {
            block,
            in_block: in_block as u32,
            commit: head.commit,
        });
        // Small objects have no map.
        let is_followed = head.database_pages >= MAPPED_PAGES;
        if !is_followed {
            self.followed.clear();
        }
        let mut rest = entry.payload;
        while let Some((change, more)) = delta::Entry::decode(rest) {
            rest = more;
            let page_no = change.page_no;
            if is_snapshot {
                map.starts.push(page_no);
                break;
            }
            let full = if change.full { FULL } else { 0 };
            if is_followed {
                self.followed.change(&change, number);
            }
            let entry = number | full;
            map.changes.push(Change { page_no, entry });
        }
        if head.last {
            if head.database_pages < map.size {
                map.cuts.push(Cut {
                    commit: head.commit,
                    pages: head.database_pages,
                });
                self.followed.cut(head.database_pages);
            }
            (map.last, map.size) = (head.commit, head.database_pages);
        }
        if map.changes.len() > MAX_MAPPED_CHANGES {
            self.map = None;
        }
    }

    /// The object has no more entries.
    pub(crate) fn end_object(&mut self, key: ObjectKey) {
        let map = self.map.take();
        let is_whole = self.chain.at().is_some();
        self.chain = Chain::Nothing;
        let map = map.filter(|map| is_whole && map.size >= MAPPED_PAGES);
        self.done.extend(map.map(|mut map| {
            map.leave_out();
            let hot = HotPages::of(&self.followed, map.size);
            if self.hot_bytes + hot.bytes() <= MAX_HOT_BYTES {
                self.hot_bytes += hot.bytes();
                map.hot = hot;
            }
            (key, map)
        }));
        self.followed.clear();
    }

    /// If this object ended last, and full images could be added to its hot pages: the commit that they must be as of.
    pub(crate) fn hot_pages_wanted(&self, key: ObjectKey) -> Option<CommitNo> {
        let (_, map) = self.done.last().filter(|(of, _)| *of == key)?;
        (map.hot.lack_something() || map.has_outline()).then_some(map.last)
    }

    /// Completes the hot pages of the object that ended last. `content` returns a page after its last commit.
    pub(crate) fn complete_hot_pages<E>(
        &mut self,
        mut content: impl FnMut(u32) -> Result<Page, E>,
    ) -> Result<(), E> {
        let completed = self.with_last(|map| {
            map.hot.complete(&mut content)?;
            if map.has_outline() {
                map.hot.add_outline(map.size, content)?;
            }
            Ok(())
        });
        completed.unwrap_or(Ok(()))
    }

    /// Gives the object that ended last the hot pages that it had in an earlier run, if that has the same last commit.
    pub(crate) fn add_hot_pages(&mut self, earlier: &PageMap) {
        self.with_last(|map| {
            if map.last == earlier.last {
                map.hot.add_all(&earlier.hot);
            }
        });
    }

    /// Changes the map of the object that ended last. `None` if there is no room for more hot pages.
    fn with_last<R>(&mut self, change: impl FnOnce(&mut PageMap) -> R) -> Option<R> {
        let has_room = self.hot_bytes + MAX_HOT_PAGES * LARGEST_HOT_PAGE <= MAX_HOT_BYTES;
        let (_, map) = self.done.last_mut().filter(|_| has_room)?;
        let before = map.hot.bytes();
        let result = change(map);
        self.hot_bytes = self.hot_bytes - before + map.hot.bytes();
        Some(result)
    }

    /// Appends the section, with the positions of the blocks.
    pub(crate) fn finish(
        self,
        blocks: &[u64],
        packer: &mut Packer,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut maps = self.done;
        for place in maps.iter_mut().flat_map(|(_, map)| &mut map.places) {
            place.block = blocks[place.block as usize];
        }
        list::encode(&maps, packer, out)
    }
}

impl PageMap {
    /// Whether the hot pages include an outline.
    fn has_outline(&self) -> bool {
        self.size >= OUTLINED_PAGES
    }

    /// Sorts the changes, and leaves out those that do not matter: those before a full image, and before a cut of the page.
    fn leave_out(&mut self) {
        let key = |of: &Change| (of.page_no, of.entry());
        self.changes.sort_unstable_by_key(key);
        let (places, cuts) = (&self.places, &self.cuts);
        let is_cut = |change: &Change| {
            let commit = places[change.entry()].commit;
            let mut later = cuts.iter().filter(|cut| !commit.is_after(cut.commit));
            later.any(|cut| cut.pages < change.page_no)
        };
        let mut kept: Vec<Change> = Vec::new();
        for change in &self.changes {
            if is_cut(change) {
                continue;
            }
            if change.is_full() {
                let before = kept.partition_point(|of| of.page_no < change.page_no);
                kept.truncate(before);
            }
            kept.push(*change);
        }
        self.changes = kept;
    }
}
