//! The content of an object's pages while its entries are written, as far as the run has it.

use crate::delta;
use crate::ident::{Page, ZERO_PAGE};
use crate::limits::{FOLLOWED_NEW_PAGES, FOLLOWED_PAGES, PAGE_BYTES};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

/// Follows the pages that were changed last. New pages are kept apart: a commit may add thousands, and drops no other page for them.
#[derive(Default)]
pub(super) struct Followed {
    pages: FxHashMap<u32, FollowedPage>,
    new: Uses,
    changed: Uses,
}

/// See the module.
pub(super) struct FollowedPage {
    /// Zeros where nothing is known.
    pub(super) image: Box<Page>,
    /// A bit for each byte that is known.
    known: Box<[u64; PAGE_BYTES / 64]>,
    /// The first entry whose change is included.
    pub(super) since: u32,
    /// How often it was changed, as far as that is known.
    pub(super) changes: u32,
    used: u64,
}

/// Pages by when they were changed last.
#[derive(Default)]
struct Uses {
    pages: BTreeMap<u64, u32>,
    number: u64,
}

impl Uses {
    fn add(&mut self, page_no: u32) -> u64 {
        self.number += 1;
        self.pages.insert(self.number, page_no);
        self.number
    }

    /// Removes the least recently used, if there are more than `most`.
    fn beyond(&mut self, most: usize) -> Option<u32> {
        (self.pages.len() > most).then(|| self.pages.pop_first().map(|(_, page_no)| page_no))?
    }
}

impl FollowedPage {
    fn unknown(since: u32) -> Self {
        Self {
            image: Box::new(ZERO_PAGE),
            known: Box::new([0; PAGE_BYTES / 64]),
            since,
            changes: 0,
            used: 0,
        }
    }

    /// Whether each byte is known.
    pub(super) fn is_whole(&self) -> bool {
        self.known.iter().all(|bits| *bits == u64::MAX)
    }

    /// The ranges that are known.
    pub(super) fn known(&self) -> impl Iterator<Item = Range<usize>> {
        let is_known = |at: &usize| self.known[at / 64] >> (at % 64) & 1 == 1;
        let mut at = 0;
        iter::from_fn(move || {
            let from = (at..PAGE_BYTES).find(is_known)?;
            let to = (from..PAGE_BYTES).find(|at| !is_known(at));
            at = to.unwrap_or(PAGE_BYTES);
            Some(from..at)
        })
    }

    fn change(&mut self, change: &delta::Entry<'_>, entry: u32) {
        self.changes += 1;
        if change.full {
            *self.image = ZERO_PAGE;
            *self.known = [u64::MAX; PAGE_BYTES / 64];
            self.since = entry;
        }
        change.apply(&mut self.image);
        if self.is_whole() {
            return;
        }
        for (offset, range) in change.ranges() {
            for at in offset..offset + range.len() {
                self.known[at / 64] |= 1 << (at % 64);
            }
        }
    }

    fn is_new(&self) -> bool {
        self.changes == 1 && self.is_whole()
    }
}

impl Followed {
    /// A change of a page, in the entry with this number.
    pub(super) fn change(&mut self, change: &delta::Entry<'_>, entry: u32) {
        let page_no = change.page_no;
        let page = self.pages.entry(page_no);
        let page = page.or_insert_with(|| FollowedPage::unknown(entry));
        if page.changes > 0 {
            let uses = if page.is_new() {
                &mut self.new
            } else {
                &mut self.changed
            };
            uses.pages.remove(&page.used);
        }
        page.change(change, entry);
        let (uses, most) = if page.is_new() {
            (&mut self.new, FOLLOWED_NEW_PAGES)
        } else {
            (&mut self.changed, FOLLOWED_PAGES)
        };
        page.used = uses.add(page_no);
        if let Some(oldest) = uses.beyond(most) {
            self.pages.remove(&oldest);
        }
    }

    /// Pages after these are gone.
    pub(super) fn cut(&mut self, pages: u32) {
        self.pages.retain(|page_no, _| *page_no <= pages);
        for uses in [&mut self.new, &mut self.changed] {
            uses.pages.retain(|_, page_no| *page_no <= pages);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self {
            pages: std::mem::take(&mut self.pages),
            ..Self::default()
        };
        self.pages.clear();
    }

    /// The pages, with their numbers.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u32, &FollowedPage)> {
        self.pages.iter().map(|(page_no, page)| (*page_no, page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::page_map::samples::{change, page};

    fn of(followed: &Followed, page_no: u32) -> Option<&FollowedPage> {
        followed.pages.get(&page_no)
    }

    #[test]
    fn a_page_is_as_its_changes_leave_it_and_known_where_they_are() {
        let mut followed = Followed::default();
        for at in 1..5 {
            change(&mut followed, 3, at, Some(at - 1));
        }
        let followed_page = of(&followed, 3).unwrap();
        assert!(followed_page.known().eq(iter::once(100..200)));
        assert_eq!(*followed_page.image, page(4));
        assert_eq!((followed_page.since, followed_page.changes), (1, 4));
        change(&mut followed, 3, 9, None);
        let followed_page = of(&followed, 3).unwrap();
        assert!(followed_page.is_whole());
        assert_eq!((followed_page.since, followed_page.changes), (9, 5));
    }

    #[test]
    fn a_page_that_was_cut_off_is_not_followed() {
        let mut followed = Followed::default();
        for page_no in 1..9 {
            change(&mut followed, page_no, 1, None);
        }
        followed.cut(6);
        assert!(of(&followed, 6).is_some());
        assert!(of(&followed, 7).is_none());
        // What it changes is not there any more.
        change(&mut followed, 7, 2, Some(1));
        assert!(!of(&followed, 7).unwrap().is_whole());
    }

    #[test]
    fn new_pages_drop_no_page_that_was_changed() {
        let mut followed = Followed::default();
        change(&mut followed, 1, 1, None);
        change(&mut followed, 1, 2, Some(1));
        change(&mut followed, 2, 2, Some(1));
        for page_no in 3..20_000 {
            change(&mut followed, page_no, 1, None);
        }
        assert!(of(&followed, 1).is_some_and(FollowedPage::is_whole));
        assert!(of(&followed, 2).is_some());
        assert_eq!(followed.pages.len(), 2 + FOLLOWED_NEW_PAGES);
        for page_no in 20_000..40_000 {
            change(&mut followed, page_no, 2, Some(1));
        }
        assert!(of(&followed, 1).is_none());
        assert_eq!(followed.pages.len(), FOLLOWED_PAGES + FOLLOWED_NEW_PAGES);
        followed.clear();
        assert_eq!(
            followed.pages.len() + followed.new.pages.len() + followed.changed.pages.len(),
            0
        );
    }
}
