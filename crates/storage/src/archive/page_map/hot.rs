//! Hot pages: those that many commits in a run change, such as the roots of trees. A map has these changes as one, which would otherwise
//! have to be put together from as many entries, in as many blocks.
//!
//! They follow the map, compressed in blocks as it is. For each, in the order of pages: the number of the first entry whose change is
//! included u32, and a [page entry](crate::delta) with what it and all later ones of the run leave: the full image, or a delta
//! if the run does not have all of the page. Readers that do not know hot pages use the map alone.

use super::followed::Followed;
use super::{pack, unpack};
use crate::archive::block::Packer;
use crate::delta;
use crate::ident::{CommitNo, Page};
use crate::limits::{HOT_PAGE_CHANGES, HOT_PAGE_SHARE, MAX_HOT_PAGES};
use crate::overlay::header;
use bytes::{Buf, BufMut};
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
    pub(crate) fn lack_something(&self) -> bool {
        self.0.iter().any(|page| !page.is_full)
    }

    /// Makes full images of deltas. `content` returns a page after the last commit, as in a file. One that the delta would change is not
    /// that page: the delta stays.
    pub(crate) fn complete<E>(
        &mut self,
        mut content: impl FnMut(u32) -> Result<Page, E>,
    ) -> Result<(), E> {
        for hot in self.0.iter_mut().filter(|page| !page.is_full) {
            let mut page = content(hot.page_no)?;
            if hot.page_no == 1 {
                // A file has its commit here, the log what SQLite has written.
                header::set_commit(&mut page, CommitNo(0), 0);
            }
            let mut changed = page;
            if let Some((change, _)) = delta::Entry::decode(&hot.entry) {
                change.apply(&mut changed);
            }
            if hot.page_no == 1 {
                header::set_commit(&mut changed, CommitNo(0), 0);
            }
            if changed == page {
                hot.entry.clear();
                delta::encode(&mut hot.entry, hot.page_no, &page, None);
                hot.is_full = true;
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::page_map::samples::{change, page};
    use crate::ident::ZERO_PAGE;

    /// What a hot page leaves of a page of zeros.
    fn content(hot: &HotPages, page_no: u32) -> Option<u8> {
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
        assert_eq!(
            [1, 2, 3].map(|no| content(&hot, no)),
            [Some(8), None, Some(8)]
        );
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
