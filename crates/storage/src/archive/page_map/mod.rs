//! The page maps of a run: where in it the pages of large objects are, so that one page can be read without the others.
//!
//! An object has a map if its database has at least [`MAPPED_PAGES`](crate::limits::MAPPED_PAGES) pages after its last entry in the
//! run. It is of the entries from the object's newest **base** in the run on, or from the first if the run has none: a snapshot, or a
//! commit that begins the object, which has all its pages. The section is
//!
//! ```text
//! CRC-32C of the list: u32 | number of maps: u32 | list | maps
//! ```
//!
//! The list has 52 bytes for each map, in the order of objects: namespace u32, object id, position of the map in the section u64,
//! its length u32, length u32 of the [hot pages](hot) that follow it. A map is compressed in [blocks](super::block), which together are
//!
//! | bytes | |
//! |---|---|
//! | 4 | 1 if it begins with a base |
//! | 4 | pages of the snapshot it begins with; 0 if with none |
//! | 4, 4, 4 | number of the first commit, number of the last, pages of the database after it |
//! | 4, 4, 4, 4 | number of entries, of those of the snapshot, of cuts, of changes |
//! | 8 each | entries: positions of their blocks in the file |
//! | 4 each | entries: offsets in their blocks |
//! | 4 each | entries: numbers of their commits |
//! | 4 each | entries of the snapshot: the first page in each |
//! | 4, 4 each | cuts: number of a commit that left fewer pages, how many |
//! | 4, 4 each | changes, by page: page, number of an entry that changes it, with bit 31 if it has the full image; only those since the newest full image and cut |

mod followed;
mod hot;
mod list;
mod mapper;
#[cfg(test)]
mod samples;

use super::block::{BLOCK_HEADER, BlockHeader, Packer};
use crate::ident::CommitNo;
use crate::limits::ARCHIVE_BLOCK_BYTES;
use bytes::{Buf, BufMut};
pub(crate) use hot::HotPage;
use hot::HotPages;
#[cfg(feature = "fuzzing")]
pub(crate) use list::seal;
pub(crate) use list::{LIST_HEADER, Listed, decode_list, find, list_bytes};
pub(crate) use mapper::Mapper;
use std::io;

/// Marks a change that has the full image.
const FULL: u32 = 1 << 31;

/// Where an entry is, and the commit that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The position of its block in the file.
    pub(crate) block: u64,
    pub(crate) in_block: u32,
    pub(crate) commit: CommitNo,
}

/// An entry that changes a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    page_no: u32,
    /// The number of the entry, and [`FULL`].
    entry: u32,
}

impl Change {
    fn entry(self) -> usize {
        (self.entry & !FULL) as usize
    }

    fn is_full(self) -> bool {
        self.entry & FULL != 0
    }
}

/// A commit that left fewer pages than there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    commit: CommitNo,
    pages: u32,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageMap {
    /// It begins with a base.
    pub(crate) has_base: bool,
    /// Pages of the snapshot that it begins with.
    pub(crate) snapshot: u32,
    pub(crate) first: CommitNo,
    pub(crate) last: CommitNo,
    /// Pages after the last commit.
    pub(crate) size: u32,
    places: Vec<Place>,
    /// The first page in each entry of the snapshot.
    starts: Vec<u32>,
    cuts: Vec<Cut>,
    /// By page, and then by entry.
    changes: Vec<Change>,
    hot: HotPages,
}

impl PageMap {
    /// The entry of the snapshot that has a page.
    pub(crate) fn in_snapshot(&self, page_no: u32) -> Option<Place> {
        if page_no > self.snapshot {
            return None;
        }
        let after = self.starts.partition_point(|start| *start <= page_no);
        self.places.get(after.checked_sub(1)?).copied()
    }

    /// A hot page as of the run's last commit. `None` if that is not after this one, unless the run has the whole object: then it
    /// is as of this one.
    pub(crate) fn hot(&self, page_no: u32, after: CommitNo) -> Option<&HotPage> {
        let hot = self.hot.get(page_no)?;
        let is_whole = self.has_base && hot.is_full();
        (is_whole || self.last.is_after(after)).then_some(hot)
    }

    /// The entries that change a page in commits after this one, oldest first, each with whether it has the full image. Without those
    /// that are included in what is known of a hot page.
    pub(crate) fn changes(
        &self,
        page_no: u32,
        after: CommitNo,
        hot: Option<&HotPage>,
    ) -> impl DoubleEndedIterator<Item = (Place, bool)> {
        let from = self.changes.partition_point(|of| of.page_no < page_no);
        let to = self.changes.partition_point(|of| of.page_no <= page_no);
        let before = hot.map_or(self.places.len(), |hot| hot.since as usize);
        let changes = self.changes[from..to].iter();
        let changes = changes.filter(move |of| of.entry() < before);
        let places = changes.map(|of| (self.places[of.entry()], of.is_full()));
        places.filter(move |(place, _)| place.commit.is_after(after))
    }

    /// The least number of pages that commits after this one have left; `u32::MAX` if none left fewer than there were.
    pub(crate) fn least(&self, after: CommitNo) -> u32 {
        let cuts = self.cuts.iter().filter(|cut| cut.commit.is_after(after));
        cuts.map(|cut| cut.pages).min().unwrap_or(u32::MAX)
    }

    fn raw(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u32_le(u32::from(self.has_base));
        out.put_u32_le(self.snapshot);
        for number in [self.first.0, self.last.0, self.size] {
            out.put_u32_le(number);
        }
        let counts = [&self.places.len(), &self.starts.len(), &self.cuts.len()];
        for count in counts.into_iter().chain([&self.changes.len()]) {
            out.put_u32_le(*count as u32);
        }
        for place in &self.places {
            out.put_u64_le(place.block);
        }
        for place in &self.places {
            out.put_u32_le(place.in_block);
        }
        for place in &self.places {
            out.put_u32_le(place.commit.0);
        }
        for start in &self.starts {
            out.put_u32_le(*start);
        }
        for cut in &self.cuts {
            out.put_u32_le(cut.commit.0);
            out.put_u32_le(cut.pages);
        }
        for change in &self.changes {
            out.put_u32_le(change.page_no);
            out.put_u32_le(change.entry);
        }
        out
    }

    fn encode(&self, packer: &mut Packer, out: &mut Vec<u8>) -> io::Result<()> {
        pack(&self.raw(), packer, out)
    }

    /// Reads a map, and its hot pages. `None` if something is damaged.
    pub(crate) fn decode(map: &[u8], hot: &[u8]) -> Option<Self> {
        let mut map = Self::decode_raw(&unpack(map)?)?;
        map.hot = HotPages::decode(hot)?;
        let in_map = |since: u32| (since as usize) < map.places.len();
        map.hot.last_since().is_none_or(in_map).then_some(map)
    }

    fn decode_raw(mut raw: &[u8]) -> Option<Self> {
        let mut number = || raw.try_get_u32_le().ok();
        let (has_base, snapshot) = (number()? != 0, number()?);
        let (first, last, size) = (CommitNo(number()?), CommitNo(number()?), number()?);
        let [places, starts, cuts, changes] = [number()?, number()?, number()?, number()?];
        let mut column = |bytes: usize, count: u32| {
            let (column, rest) = raw.split_at_checked(bytes.checked_mul(count as usize)?)?;
            raw = rest;
            Some(column)
        };
        let (blocks, in_blocks) = (column(8, places)?, column(4, places)?);
        let (commits, starts) = (column(4, places)?, column(4, starts)?);
        let (cuts, changes) = (column(8, cuts)?, column(8, changes)?);
        let places = blocks.chunks(8).zip(in_blocks.chunks(4));
        let places = places.zip(commits.chunks(4));
        let places: Vec<_> = places
            .map(|((mut block, mut in_block), mut commit)| Place {
                block: block.get_u64_le(),
                in_block: in_block.get_u32_le(),
                commit: CommitNo(commit.get_u32_le()),
            })
            .collect();
        let starts: Vec<_> = starts.chunks(4).map(|mut of| of.get_u32_le()).collect();
        let cuts = cuts.chunks(8).map(|mut cut| Cut {
            commit: CommitNo(cut.get_u32_le()),
            pages: cut.get_u32_le(),
        });
        let changes = changes.chunks(8).map(|mut change| Change {
            page_no: change.get_u32_le(),
            entry: change.get_u32_le(),
        });
        let map = Self {
            has_base,
            snapshot,
            first,
            last,
            size,
            cuts: cuts.collect(),
            changes: changes.collect(),
            places,
            starts,
            hot: HotPages::default(),
        };
        (raw.is_empty() && map.is_sound()).then_some(map)
    }

    fn is_sound(&self) -> bool {
        let begins = match self.starts.first() {
            None => self.snapshot == 0,
            Some(start) => self.has_base && *start == 1 && self.snapshot > 0,
        };
        begins
            && self.starts.len() <= self.places.len()
            && self.starts.is_sorted_by(|a, b| a < b)
            && self.changes.is_sorted_by_key(|of| (of.page_no, of.entry()))
            && self.changes.iter().all(|of| of.entry() < self.places.len())
    }
}

/// Compresses bytes in blocks.
fn pack(raw: &[u8], packer: &mut Packer, out: &mut Vec<u8>) -> io::Result<()> {
    let mut blocks = raw.chunks(ARCHIVE_BLOCK_BYTES);
    blocks.try_for_each(|block| packer.pack(block, out))
}

/// The bytes that were packed. `None` if they are damaged.
fn unpack(mut packed: &[u8]) -> Option<Vec<u8>> {
    let mut raw = Vec::new();
    while !packed.is_empty() {
        let header = BlockHeader::decode(packed)?;
        let stored = packed.get(BLOCK_HEADER..)?.get(..header.stored)?;
        raw.extend(header.unpack(stored)?);
        packed = &packed[BLOCK_HEADER + header.stored..];
    }
    Some(raw)
}

#[cfg(test)]
mod tests {
    use super::list::encode;
    use super::*;
    use crate::archive::entry::{Entry, Head, Kind};
    use crate::delta;
    use crate::ident::{Generation, Life, Lsn, NamespaceNo, ObjectKey, Page, Position, ZERO_PAGE};
    use crate::limits::{MAPPED_PAGES, PAGE_BYTES};

    fn key(id: u8) -> ObjectKey {
        ObjectKey {
            namespace: NamespaceNo(1),
            id: [id; 32],
        }
    }

    fn head(kind: Kind, life: Life, commit: u32, pages: u32) -> Head {
        Head {
            key: key(1),
            commit: CommitNo(commit),
            position: Position::at(Generation(2), Lsn(u64::from(commit) * 100)),
            database_pages: pages,
            unix_millis: 0,
            entries: 0,
            kind,
            life,
            replaces: false,
            first: true,
            last: true,
        }
    }

    /// Page entries: the numbers of pages, and whether with full images.
    fn payload(pages: &[(u32, bool)]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut page: Page = ZERO_PAGE;
        for (page_no, is_full) in pages {
            page[PAGE_BYTES / 2] = 7;
            let previous = (!is_full).then_some(&ZERO_PAGE);
            delta::encode(&mut out, *page_no, &page, previous);
        }
        out
    }

    /// The map of these entries, each in a separate block.
    fn map(entries: &[(Head, &[(u32, bool)])]) -> Option<PageMap> {
        let mut mapper = Mapper::default();
        for (block, (head, pages)) in (0..).zip(entries) {
            let (head, payload) = (*head, &payload(pages)[..]);
            mapper.add(&Entry { head, payload }, block, 12);
        }
        mapper.end_object(key(1));
        mapper.done.pop().map(|(_, map)| map)
    }

    fn of_page(map: &PageMap, page_no: u32) -> Vec<(u64, bool)> {
        let changes = map.changes(page_no, CommitNo(0), None);
        changes.map(|(place, full)| (place.block, full)).collect()
    }

    fn mapped() -> PageMap {
        let commit = |number, pages| head(Kind::Commit, Life::Continues, number, pages);
        let entries = [
            (commit(3, 90), &[(1, false)][..]),
            (head(Kind::Snapshot, Life::Continues, 3, 90), &[(1, true)]),
            (commit(4, 90), &[(1, false), (80, false)]),
            (commit(5, 90), &[(1, true), (89, false)]),
            (commit(6, 85), &[(1, false)]),
            (commit(7, 95), &[(1, false), (89, false)]),
            (commit(8, 95), &[(1, false)]),
        ];
        map(&entries).unwrap()
    }

    #[test]
    fn a_map_has_what_matters_of_each_page() {
        let map = mapped();
        assert_eq!((map.first, map.last), (CommitNo(3), CommitNo(8)));
        assert_eq!((map.has_base, map.snapshot, map.size), (true, 90, 95));
        let of_first = [(3, true), (4, false), (5, false), (6, false)];
        assert_eq!(of_page(&map, 1), of_first);
        assert_eq!(of_page(&map, 80), [(2, false)]);
        assert_eq!(of_page(&map, 89), [(5, false)], "it was cut off before");
        assert_eq!(of_page(&map, 2), []);
        assert_eq!(map.in_snapshot(80).map(|place| place.block), Some(1));
        assert_eq!(map.in_snapshot(91), None);
        assert_eq!(
            (map.least(CommitNo(3)), map.least(CommitNo(6))),
            (85, u32::MAX)
        );
        let later = map.changes(1, CommitNo(7), None);
        assert_eq!(later.map(|(place, _)| place.block).collect::<Vec<_>>(), [6]);
        assert!(map.hot(1, CommitNo(7)).is_some_and(HotPage::is_full));
        assert_eq!(
            map.changes(1, CommitNo(3), map.hot(1, CommitNo(3))).count(),
            0
        );
        assert!(map.hot(1, CommitNo(8)).is_some(), "it is whole");
        let continued = PageMap {
            has_base: false,
            ..map.clone()
        };
        assert_eq!(continued.hot(1, CommitNo(8)), None, "it is no news");
        assert_eq!(map.hot(89, CommitNo(3)), None);
    }

    #[test]
    fn a_large_object_has_a_map_if_its_entries_continue_each_other() {
        let commit = |number, pages| head(Kind::Commit, Life::Continues, number, pages);
        let change = &[(1, true)][..];
        let begins = head(Kind::Commit, Life::Begins, 9, 90);
        let ends = head(Kind::Commit, Life::Ends, 9, 0);
        assert!(map(&[(commit(1, 90), change), (commit(2, 90), change)]).is_some());
        assert_eq!(
            map(&[(commit(1, 90), change), (commit(3, 90), change)]),
            None
        );
        assert_eq!(map(&[(commit(1, MAPPED_PAGES - 1), change)]), None);
        assert_eq!(map(&[(commit(8, 90), change), (ends, &[])]), None);
        let begun = map(&[(commit(1, 90), change), (begins, change)]).unwrap();
        assert_eq!((begun.has_base, begun.snapshot), (true, 0));
        assert_eq!(of_page(&begun, 1), [(1, true)]);
        let unfinished = Head {
            last: false,
            ..commit(1, 90)
        };
        assert_eq!(map(&[(unfinished, change)]), None);
    }

    fn section() -> Vec<u8> {
        let (mut section, mut packer) = (vec![], Packer::new(1).unwrap());
        encode(
            &[(key(1), mapped()), (key(2), mapped())],
            &mut packer,
            &mut section,
        )
        .unwrap();
        section
    }

    fn read(section: &[u8], id: u8) -> Option<PageMap> {
        let listed = decode_list(section.get(..list_bytes(section)?)?)?;
        let found = find(&listed, key(id))?;
        let map = section
            .get(found.at as usize..)?
            .get(..found.bytes as usize)?;
        let hot = section.get(found.at as usize + map.len()..)?;
        PageMap::decode(map, hot.get(..found.hot_bytes as usize)?)
    }

    #[test]
    fn a_map_is_read_as_it_was_written_and_any_changed_bit_is_seen() {
        let mut section = section();
        for id in [1, 2] {
            assert_eq!(read(&section, id), Some(mapped()));
        }
        assert_eq!(read(&section, 3), None);
        for at in 0..section.len() {
            section[at] ^= 8;
            assert!(
                read(&section, 1).is_none() || read(&section, 2).is_none(),
                "{at}"
            );
            section[at] ^= 8;
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_map() {
        let raw = mapped().raw();
        for length in 0..raw.len() {
            assert_eq!(PageMap::decode_raw(&raw[..length]), None, "{length}");
        }
        for at in 0..raw.len() {
            let mut other = raw.clone();
            other[at] ^= 0x81;
            // Whatever it says, nothing of it is out of bounds.
            if let Some(map) = PageMap::decode_raw(&other) {
                for page_no in 0..100 {
                    let _ = (of_page(&map, page_no), map.in_snapshot(page_no));
                }
            }
        }
    }
}
