//! Hot pages: those that many commits in a run change, such as the pages above the newest rows of a table. A map has these changes as one,
//! which would otherwise have to be put together from as many entries, in as many blocks.
//!
//! Large objects ([`OUTLINED_PAGES`](crate::limits::OUTLINED_PAGES)) also have their **outline** among the hot pages, changed or not: the
//! first [`OUTLINE_FIRST_PAGES`], which hold most root pages, and the rightmost path below each, down to the leaf. A reader then finds
//! the newest rows in the newest run alone. The outline gets the places that changed pages leave free.
//!
//! They follow the map, compressed in blocks as it is. For each, in the order of pages: the number of the first entry whose change is
//! included u32, and a [page entry](crate::delta) with what it and all later ones of the run leave: the full image, or a delta
//! if the run does not have all of the page. Readers that do not know hot pages use the map alone.

use super::followed::Followed;
use super::{pack, unpack};
use crate::archive::block::Packer;
use crate::delta;
use crate::ident::{CommitNo, Page};
use crate::limits::{
    HOT_PAGE_CHANGES, HOT_PAGE_SHARE, MAX_HOT_PAGES, MAX_TREE_DEPTH, OUTLINE_FIRST_PAGES,
};
use crate::overlay::header;
use bytes::{Buf, BufMut};
use std::collections::BTreeSet;
use std::io;

/// The hot pages of a map, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HotPages(Vec<HotPage>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HotPage {
    page_no: u32,
    /// The first entry whose change is included.
    pub(super) since: u32,
    is_full: bool,
    entry: Vec<u8>,
}

impl HotPage {
    fn full(page_no: u32, page: &Page) -> Self {
        let mut entry = Vec::new();
        delta::encode(&mut entry, page_no, page, None);
        Self {
            page_no,
            since: 0,
            is_full: true,
            entry,
        }
    }

    /// Whether nothing before it counts.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The page entry.
    pub(crate) fn entry(&self) -> &[u8] {
        &self.entry
    }
}

impl HotPages {
    /// The pages that were changed most often in an object of this size.
    pub(super) fn of(followed: &Followed, size: u32) -> Self {
        let mut hot: Vec<_> = followed.pages().collect();
        hot.retain(|(_, page)| page.changes >= HOT_PAGE_CHANGES);
        hot.sort_unstable_by_key(|(page_no, page)| (u32::MAX - page.changes, *page_no));
        hot.truncate(MAX_HOT_PAGES.min((size / HOT_PAGE_SHARE) as usize));
        hot.sort_unstable_by_key(|(page_no, _)| *page_no);
        let pages = hot.into_iter().map(|(page_no, page)| {
            let mut entry = Vec::new();
            if page.is_whole() {
                delta::encode(&mut entry, page_no, &page.image, None);
            } else {
                delta::encode_ranges(&mut entry, page_no, &page.image, page.known());
            }
            HotPage {
                page_no,
                since: page.since,
                is_full: page.is_whole(),
                entry,
            }
        });
        Self(pages.collect())
    }

    pub(super) fn get(&self, page_no: u32) -> Option<&HotPage> {
        let place = self.0.binary_search_by_key(&page_no, |page| page.page_no);
        self.0.get(place.ok()?)
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|page| page.entry.len()).sum()
    }

    /// The first entry that the last of them begins with.
    pub(super) fn last_since(&self) -> Option<u32> {
        self.0.iter().map(|page| page.since).max()
    }

    /// Whether there are deltas among them.
    pub(super) fn lack_something(&self) -> bool {
        self.0.iter().any(|page| !page.is_full)
    }

    /// Makes full images of deltas. `content` returns a page after the last commit, as in a file. One that the delta would change is not
    /// that page: the delta stays.
    pub(super) fn complete<E>(
        &mut self,
        mut content: impl FnMut(u32) -> Result<Page, E>,
    ) -> Result<(), E> {
        for hot in self.0.iter_mut().filter(|page| !page.is_full) {
            let page = as_logged(hot.page_no, content(hot.page_no)?);
            let mut changed = page;
            if let Some((change, _)) = delta::Entry::decode(&hot.entry) {
                change.apply(&mut changed);
            }
            if as_logged(hot.page_no, changed) == page {
                hot.entry.clear();
                delta::encode(&mut hot.entry, hot.page_no, &page, None);
                hot.is_full = true;
            }
        }
        Ok(())
    }

    /// Adds the outline of a database of this many pages, as far as there is room. `content` returns a page after the last commit.
    pub(super) fn add_outline<E>(
        &mut self,
        size: u32,
        mut content: impl FnMut(u32) -> Result<Page, E>,
    ) -> Result<(), E> {
        let mut seen = BTreeSet::new();
        for first in 1..=OUTLINE_FIRST_PAGES.min(size) {
            let mut next = Some(first);
            for _ in 0..MAX_TREE_DEPTH {
                let Some(page_no) = next.filter(|page_no| (1..=size).contains(page_no)) else {
                    break;
                };
                if !seen.insert(page_no) {
                    break;
                }
                let page = content(page_no)?;
                self.put(HotPage::full(page_no, &as_logged(page_no, page)));
                next = rightmost_child(page_no, &page);
            }
        }
        Ok(())
    }

    /// Adds the full images of an earlier map with the same last commit, as far as there is room.
    pub(super) fn add_all(&mut self, earlier: &Self) {
        for hot in earlier.0.iter().filter(|page| page.is_full) {
            self.put(HotPage {
                since: 0,
                ..hot.clone()
            });
        }
    }

    /// Adds a full image, unless there is one already, or no room.
    fn put(&mut self, hot: HotPage) {
        let place = self
            .0
            .binary_search_by_key(&hot.page_no, |page| page.page_no);
        match place {
            Ok(at) if !self.0[at].is_full => self.0[at] = hot,
            Err(at) if self.0.len() < MAX_HOT_PAGES => self.0.insert(at, hot),
            _ => {}
        }
    }

    pub(super) fn encode(&self, packer: &mut Packer, out: &mut Vec<u8>) -> io::Result<()> {
        let mut raw = Vec::new();
        for page in &self.0 {
            raw.put_u32_le(page.since);
            raw.put_slice(&page.entry);
        }
        pack(&raw, packer, out)
    }

    /// `None` if they are damaged.
    pub(super) fn decode(packed: &[u8]) -> Option<Self> {
        Self::decode_raw(&unpack(packed)?)
    }

    fn decode_raw(mut raw: &[u8]) -> Option<Self> {
        let mut pages = Vec::new();
        while !raw.is_empty() {
            let since = raw.try_get_u32_le().ok()?;
            let (entry, rest) = delta::Entry::decode(raw)?;
            pages.push(HotPage {
                page_no: entry.page_no,
                since,
                is_full: entry.full,
                entry: raw[..raw.len() - rest.len()].to_vec(),
            });
            raw = rest;
        }
        let in_order = pages.is_sorted_by(|a, b| a.page_no < b.page_no);
        in_order.then_some(Self(pages))
    }
}

/// A page of a file as it is in the log: page 1 has the object's commit in the file, and what SQLite has written in the log.
fn as_logged(page_no: u32, mut page: Page) -> Page {
    if page_no == 1 {
        header::set_commit(&mut page, CommitNo(0), 0);
    }
    page
}

/// The right-most pointer of an interior page; `None` for other pages
/// (<https://www.sqlite.org/fileformat2.html#b_tree_pages>).
fn rightmost_child(page_no: u32, page: &Page) -> Option<u32> {
    const INTERIOR_INDEX: u8 = 2;
    const INTERIOR_TABLE: u8 = 5;
    let begin = if page_no == 1 { header::BYTES } else { 0 };
    let mut tree = &page[begin..];
    let kind = tree.get_u8();
    tree.advance(7);
    matches!(kind, INTERIOR_INDEX | INTERIOR_TABLE).then(|| tree.get_u32())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::page_map::samples::{change, page};
    use crate::ident::ZERO_PAGE;

    /// What a hot page leaves of a page of zeros.
    fn left(hot: &HotPages, page_no: u32) -> Option<u8> {
        let mut page = ZERO_PAGE;
        let (entry, _) = delta::Entry::decode(hot.get(page_no)?.entry()).unwrap();
        entry.apply(&mut page);
        Some(page[150])
    }

    #[test]
    fn pages_that_were_changed_often_are_hot_with_their_last_content() {
        let mut followed = Followed::default();
        change(&mut followed, 1, 1, None);
        change(&mut followed, 2, 1, None);
        for at in 2..9 {
            change(&mut followed, 1, at, Some(at - 1));
            change(&mut followed, 3, at, Some(at - 1));
        }
        let hot = HotPages::of(&followed, 1000);
        assert_eq!([1, 2, 3].map(|no| left(&hot, no)), [Some(8), None, Some(8)]);
        assert!(hot.get(1).unwrap().is_full());
        assert!(
            !hot.get(3).unwrap().is_full(),
            "its first image is elsewhere"
        );
        let mut packed = Vec::new();
        hot.encode(&mut Packer::new(1).unwrap(), &mut packed)
            .unwrap();
        assert_eq!(HotPages::decode(&packed), Some(hot));
    }

    #[test]
    fn those_changed_most_are_kept_as_the_size_allows() {
        let mut followed = Followed::default();
        for page_no in 1..=100 {
            change(&mut followed, page_no, 0, None);
            for at in 0..10 + page_no as u8 {
                change(&mut followed, page_no, at + 1, Some(at));
            }
        }
        let kept = |size| -> Vec<u32> {
            let HotPages(pages) = HotPages::of(&followed, size);
            pages.into_iter().map(|page| page.page_no).collect()
        };
        assert_eq!(kept(2 * HOT_PAGE_SHARE), [99, 100]);
        assert_eq!(kept(u32::MAX).len(), MAX_HOT_PAGES);
        assert_eq!(kept(HOT_PAGE_SHARE - 1).len(), 0);
    }

    #[test]
    fn a_delta_becomes_a_full_image_of_a_page_that_has_its_changes() {
        let mut followed = Followed::default();
        for at in 1..9 {
            change(&mut followed, 7, at, Some(at - 1));
        }
        let mut whole = page(8);
        whole[3000] = 1;
        let mut hot = HotPages::of(&followed, 1000);
        assert!(hot.lack_something());
        hot.complete(|_| Ok::<_, ()>(page(7))).unwrap();
        assert!(
            !hot.get(7).unwrap().is_full(),
            "that page is an earlier one"
        );
        hot.complete(|_| Ok::<_, ()>(whole)).unwrap();
        assert!(!hot.lack_something());
        let mut read = ZERO_PAGE;
        let (entry, _) = delta::Entry::decode(hot.get(7).unwrap().entry()).unwrap();
        entry.apply(&mut read);
        assert_eq!(read, whole);
    }

    /// A database in which page 3 is the root of a tree of four levels, and the others are leaves.
    fn content(page_no: u32) -> Page {
        let mut page = page(page_no as u8);
        let child = match page_no {
            3 => 500,
            500 => 700,
            700 => 900,
            _ => 0_u32,
        };
        page[0] = if child > 0 { 5 } else { 13 };
        page[8..12].copy_from_slice(&child.to_be_bytes());
        page
    }

    #[test]
    fn an_outline_has_the_first_pages_and_the_way_to_the_last_rows() {
        let mut hot = HotPages::default();
        hot.add_outline(1_000, |page_no| Ok::<_, ()>(content(page_no)))
            .unwrap();
        let numbers: Vec<u32> = hot.0.iter().map(|page| page.page_no).collect();
        let first = 1..=OUTLINE_FIRST_PAGES;
        assert_eq!(numbers, first.chain([500, 700, 900]).collect::<Vec<_>>());
        let of = |hot: &HotPages, page_no| {
            let mut read = ZERO_PAGE;
            let entry = hot.get(page_no).unwrap().entry();
            delta::Entry::decode(entry).unwrap().0.apply(&mut read);
            read
        };
        assert_eq!(of(&hot, 700), content(700));
        assert_eq!(header::commit(&of(&hot, 1)), CommitNo(0));
        // A merge takes them over, and keeps what it knows itself.
        let mut followed = Followed::default();
        for at in 1..9 {
            change(&mut followed, 700, at, Some(at - 1));
            change(&mut followed, 800, at, Some(at - 1));
        }
        let mut merged = HotPages::of(&followed, 1000);
        merged.add_all(&hot);
        assert_eq!(merged.0.len(), hot.0.len() + 1);
        assert_eq!(of(&merged, 700), content(700));
        assert!(!merged.get(800).unwrap().is_full());
    }

    #[test]
    fn a_child_that_is_out_of_range_or_was_seen_ends_a_path() {
        for child in [0, 1, 3, 1_001, u32::MAX] {
            let mut hot = HotPages::default();
            let odd = |_| {
                let mut page = ZERO_PAGE;
                page[0] = 2;
                page[8..12].copy_from_slice(&u32::to_be_bytes(child));
                Ok::<_, ()>(page)
            };
            hot.add_outline(1_000, odd).unwrap();
            assert_eq!(hot.0.len(), OUTLINE_FIRST_PAGES as usize, "{child}");
        }
    }

    #[test]
    fn an_outline_is_bounded_though_every_path_is_long() {
        let deep = |page_no: u32| {
            let mut page = ZERO_PAGE;
            page[0] = 5;
            page[8..12].copy_from_slice(&(page_no + 100).to_be_bytes());
            Ok::<_, ()>(page)
        };
        let mut hot = HotPages::default();
        hot.add_outline(u32::MAX, deep).unwrap();
        assert_eq!(hot.0.len(), MAX_HOT_PAGES);
        let below_second = hot.0.iter().filter(|page| page.page_no % 100 == 2);
        assert_eq!(below_second.count(), MAX_TREE_DEPTH);
    }

    #[test]
    fn arbitrary_bytes_are_no_hot_pages() {
        let mut entry = vec![3, 0, 0, 0];
        delta::encode(&mut entry, 9, &page(1), None);
        assert!(HotPages::decode_raw(&entry).is_some());
        for length in 1..entry.len() {
            assert_eq!(HotPages::decode_raw(&entry[..length]), None, "{length}");
        }
        let not_in_order = [&entry[..], &entry[..]].concat();
        assert_eq!(HotPages::decode_raw(&not_in_order), None);
    }
}
