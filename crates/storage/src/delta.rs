//! Page entries: how a changed page is encoded in a record, and decoded again.
//!
//! An entry is `page number: u32, kind: u16, ranges: u16`, then for each range `offset: u16, length: u16` and the bytes.
//! Kind 0 is a **full** image, given as ranges over a page of zeros; kind 1 is a **delta**, given as ranges over the
//! page's previous image. A full image that ranges would not shorten is one range of the whole page.

use crate::ident::{Page, ZERO_PAGE};
use crate::limits::PAGE_BYTES;
use bytes::{Buf, BufMut};
use std::ops::Range;

const FULL: u16 = 0;
const DELTA: u16 = 1;
const ENTRY_HEADER: usize = 8;
const RANGE_HEADER: usize = 4;

/// A decoded entry: its page number, whether it is a full image, and its ranges.
pub(crate) struct Entry<'a> {
    pub(crate) page_no: u32,
    pub(crate) full: bool,
    ranges: usize,
    body: &'a [u8],
}

/// What [`encode`] has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoded {
    /// The page has not changed: nothing was written.
    Unchanged,
    /// A full image.
    Full,
    /// A delta against the previous image.
    Delta,
}

/// Appends an entry for `page`: a delta against `previous` if there is one, else a full image.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    page_no: u32,
    page: &Page,
    previous: Option<&Page>,
) -> Encoded {
    let Some(previous) = previous else {
        put_ranges(out, page_no, FULL, page, &ZERO_PAGE);
        return Encoded::Full;
    };
    let start = out.len();
    if put_ranges(out, page_no, DELTA, page, previous) == 0 {
        out.truncate(start);
        return Encoded::Unchanged;
    }
    if out.len() - start <= PAGE_BYTES / 2 {
        return Encoded::Delta;
    }
    // More than half has changed: a full image costs little more and ends the delta chain.
    out.truncate(start);
    put_ranges(out, page_no, FULL, page, &ZERO_PAGE);
    Encoded::Full
}

/// Appends a delta with these ranges of `page`, which are in order and apart.
pub(crate) fn encode_ranges(
    out: &mut Vec<u8>,
    page_no: u32,
    page: &Page,
    ranges: impl Iterator<Item = Range<usize>>,
) {
    let start = out.len();
    out.put_u32_le(page_no);
    out.put_u16_le(DELTA);
    out.put_u16_le(0);
    let mut count = 0_u16;
    for range in ranges {
        put_range(out, page, range.start, range.end);
        count += 1;
    }
    (&mut out[start + 6..]).put_u16_le(count);
}

/// Writes the ranges in which `page` differs from `base` and returns their number. Equal blocks of 64 bytes are skipped
/// at once; a range is a run of 8-byte words that differ, trimmed to the bytes that differ.
fn put_ranges(out: &mut Vec<u8>, page_no: u32, kind: u16, page: &Page, base: &Page) -> u16 {
    const BLOCK: usize = 64;
    const WORD: usize = 8;
    let start = out.len();
    out.put_u32_le(page_no);
    out.put_u16_le(kind);
    out.put_u16_le(0);
    let mut ranges = 0_u16;
    let mut run: Option<usize> = None;
    let (blocks, _) = page.as_chunks::<BLOCK>();
    let (base_blocks, _) = base.as_chunks::<BLOCK>();
    for (at, (block, base_block)) in (0..).step_by(BLOCK).zip(blocks.iter().zip(base_blocks)) {
        if same(block, base_block) {
            end_run(out, page, base, &mut run, at, &mut ranges);
            continue;
        }
        let (words, _) = block.as_chunks::<WORD>();
        let (base_words, _) = base_block.as_chunks::<WORD>();
        for (at, (word, base_word)) in (at..).step_by(WORD).zip(words.iter().zip(base_words)) {
            if word == base_word {
                end_run(out, page, base, &mut run, at, &mut ranges);
            } else {
                run.get_or_insert(at);
            }
        }
    }
    end_run(out, page, base, &mut run, PAGE_BYTES, &mut ranges);
    if out.len() - start > ENTRY_HEADER + RANGE_HEADER + PAGE_BYTES {
        out.truncate(start + ENTRY_HEADER);
        put_range(out, page, 0, PAGE_BYTES);
        ranges = 1;
    }
    (&mut out[start + 6..]).put_u16_le(ranges);
    ranges
}

/// Compares without a branch for each word; the compiler turns this into a few vector instructions.
fn same(a: &[u8; 64], b: &[u8; 64]) -> bool {
    let word = |word: &[u8; 8]| u64::from_ne_bytes(*word);
    let (a, _) = a.as_chunks::<8>();
    let (b, _) = b.as_chunks::<8>();
    a.iter()
        .zip(b)
        .fold(0, |difference, (a, b)| difference | (word(a) ^ word(b)))
        == 0
}

/// Ends a run of differing words at `to`, if there is one.
fn end_run(
    out: &mut Vec<u8>,
    page: &Page,
    base: &Page,
    run: &mut Option<usize>,
    mut to: usize,
    ranges: &mut u16,
) {
    let Some(mut from) = run.take() else { return };
    while page[from] == base[from] {
        from += 1;
    }
    while page[to - 1] == base[to - 1] {
        to -= 1;
    }
    put_range(out, page, from, to);
    *ranges += 1;
}

fn put_range(out: &mut Vec<u8>, page: &Page, from: usize, to: usize) {
    out.put_u16_le(from as u16);
    out.put_u16_le((to - from) as u16);
    out.put_slice(&page[from..to]);
}

/// Takes a range off the front of `bytes`: its offset in the page and its content. `None` if they do not begin with
/// one.
fn take_range<'a>(bytes: &mut &'a [u8]) -> Option<(usize, &'a [u8])> {
    let offset = usize::from(bytes.try_get_u16_le().ok()?);
    let length = usize::from(bytes.try_get_u16_le().ok()?);
    let (range, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    (offset + length <= PAGE_BYTES).then_some((offset, range))
}

impl<'a> Entry<'a> {
    /// Reads the first entry of a payload and returns it with the rest. `None` if the bytes are not an entry.
    pub(crate) fn decode(mut bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let page_no = bytes.try_get_u32_le().ok().filter(|number| *number > 0)?;
        let full = match bytes.try_get_u16_le().ok()? {
            FULL => true,
            DELTA => false,
            _ => return None,
        };
        let ranges = usize::from(bytes.try_get_u16_le().ok()?);
        let mut rest = bytes;
        for _ in 0..ranges {
            take_range(&mut rest)?;
        }
        let body = &bytes[..bytes.len() - rest.len()];
        Some((
            Self {
                page_no,
                full,
                ranges,
                body,
            },
            rest,
        ))
    }

    /// The ranges: the offset of each in the page, and its content.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let mut body = self.body;
        (0..self.ranges).map_while(move |_| take_range(&mut body))
    }

    /// Applies the entry to a page: zeros for a full image, the previous image for a delta.
    pub(crate) fn apply(&self, page: &mut Page) {
        for (offset, range) in self.ranges() {
            page[offset..offset + range.len()].copy_from_slice(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(changes: &[(u16, u8)], base: &Page) -> Page {
        let mut page = *base;
        for &(at, value) in changes {
            page[usize::from(at) % PAGE_BYTES] = value;
        }
        page
    }

    proptest! {
        #[test]
        fn an_entry_rebuilds_its_page(
            before in proptest::collection::vec(any::<(u16, u8)>(), 0..400),
            after in proptest::collection::vec(any::<(u16, u8)>(), 0..5000),
            has_previous: bool,
        ) {
            let old = page(&before, &ZERO_PAGE);
            let new = page(&after, &old);
            let mut bytes = Vec::new();
            let encoded = encode(&mut bytes, 7, &new, has_previous.then_some(&old));
            if encoded == Encoded::Unchanged {
                prop_assert!(has_previous && old == new && bytes.is_empty());
                return Ok(());
            }
            let (entry, rest) = Entry::decode(&bytes).expect("an entry");
            prop_assert!(rest.is_empty());
            prop_assert_eq!(entry.page_no, 7);
            prop_assert_eq!(entry.full, encoded == Encoded::Full);
            let mut rebuilt = if entry.full { ZERO_PAGE } else { old };
            entry.apply(&mut rebuilt);
            prop_assert_eq!(rebuilt, new);
            prop_assert!(bytes.len() <= ENTRY_HEADER + RANGE_HEADER + PAGE_BYTES);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut rest = &bytes[..];
            let mut page = ZERO_PAGE;
            while let Some((entry, more)) = Entry::decode(rest) {
                entry.apply(&mut page);
                rest = more;
            }
        }
    }

    #[test]
    fn a_small_change_is_a_small_entry() {
        let mut new = ZERO_PAGE;
        new[100] = 1;
        new[3000..3040].fill(7);
        let mut bytes = Vec::new();
        assert_eq!(
            encode(&mut bytes, 1, &new, Some(&ZERO_PAGE)),
            Encoded::Delta
        );
        assert_eq!(bytes.len(), ENTRY_HEADER + 2 * RANGE_HEADER + 41);
    }
}
