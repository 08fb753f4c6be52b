//! Divides an update into pieces of bounded size, so that the work of applying it can be measured between two of them.
//!
//! A block comes after the blocks that it needs, in an earlier piece or in the same one. Deletions come last.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use super::{
    inspect::{Block, Inspected, Run},
    lib0::{Malformed, write_number},
    limits::{PIECE_BLOCKS, PIECE_DELETIONS},
};

/// The pieces of an update, for a document that has each client's blocks up to the clock that `known` tells.
pub(super) struct Pieces<'i, 'a, K> {
    inspected: &'i Inspected<'a>,
    known: K,
    /// Clocks up to which clients' blocks are in earlier pieces.
    done: BTreeMap<u64, u32>,
    /// The next block of each run.
    next: Vec<usize>,
    /// Runs whose next block may be applied, in the order of the update: `yrs` integrates an update in this order fastest.
    ready: VecDeque<usize>,
    /// Runs whose next block needs a client's block at a clock.
    waiting: BTreeMap<u64, BinaryHeap<Reverse<(u32, usize)>>>,
    deletions: usize,
    is_small: bool,
}

impl<'i, 'a, K: Fn(u64) -> u32> Pieces<'i, 'a, K> {
    pub(super) fn of(inspected: &'i Inspected<'a>, known: K) -> Self {
        let blocks: usize = inspected.kept.iter().sum();
        let is_small = !inspected.is_cut
            && blocks <= PIECE_BLOCKS
            && inspected.deletions.len() <= PIECE_DELETIONS;
        Self {
            inspected,
            known,
            done: BTreeMap::new(),
            next: vec![0; inspected.runs.len()],
            ready: (0..inspected.runs.len()).collect(),
            waiting: BTreeMap::new(),
            deletions: 0,
            is_small,
        }
    }

    /// The next piece, as an update; `None` after the last.
    ///
    /// # Errors
    /// If blocks need each other.
    pub(super) fn next(&mut self) -> Result<Option<Cow<'a, [u8]>>, Malformed> {
        if self.is_small {
            let is_first = std::mem::replace(&mut self.deletions, 1) == 0;
            return Ok(is_first.then_some(Cow::Borrowed(self.inspected.update)));
        }
        let blocks = self.take_blocks();
        if !blocks.is_empty() {
            return Ok(Some(Cow::Owned(self.written(&blocks, &[]))));
        }
        let mut left = self.next.iter().zip(&self.inspected.kept);
        if left.any(|(next, kept)| next < kept) {
            return Err(Malformed);
        }
        let rest = &self.inspected.deletions[self.deletions..];
        let some = &rest[..rest.len().min(PIECE_DELETIONS)];
        self.deletions += some.len();
        Ok((!some.is_empty()).then(|| Cow::Owned(self.written(&BTreeMap::new(), some))))
    }

    fn done(&self, client: u64) -> u32 {
        let done = self.done.get(&client).copied();
        done.unwrap_or_else(|| (self.known)(client))
    }

    /// Ranges of blocks, by run.
    fn take_blocks(&mut self) -> BTreeMap<usize, (usize, usize)> {
        let mut taken = BTreeMap::new();
        let mut count = 0;
        while count < PIECE_BLOCKS
            && let Some(index) = self.ready.pop_front()
        {
            let Run { client, blocks, .. } = &self.inspected.runs[index];
            while self.next[index] < self.inspected.kept[index] {
                let at = self.next[index];
                let block: &Block<'_> = &blocks[at];
                if block.end <= self.done(*client) {
                    self.next[index] += 1;
                    continue;
                }
                if count == PIECE_BLOCKS {
                    self.ready.push_front(index);
                    break;
                }
                let mut needs = block.needs.iter().flatten();
                if let Some(&(needed, clock)) =
                    needs.find(|(needed, clock)| *clock >= self.done(*needed) && needed != client)
                {
                    let waiting = self.waiting.entry(needed).or_default();
                    waiting.push(Reverse((clock, index)));
                    break;
                }
                self.next[index] += 1;
                count += 1;
                self.done.insert(*client, block.end);
                taken.entry(index).or_insert((at, at)).1 = at + 1;
                let Some(waiting) = self.waiting.get_mut(client) else {
                    continue;
                };
                while waiting
                    .peek()
                    .is_some_and(|Reverse((clock, _))| *clock < block.end)
                {
                    self.ready
                        .extend(waiting.pop().map(|Reverse((_, index))| index));
                }
            }
        }
        taken
    }

    fn written(
        &self,
        blocks: &BTreeMap<usize, (usize, usize)>,
        deletions: &[(u64, u32, u32)],
    ) -> Vec<u8> {
        let mut out = Vec::new();
        write_number(&mut out, blocks.len() as u64);
        for (&index, &(from, to)) in blocks {
            let run = &self.inspected.runs[index];
            write_number(&mut out, (to - from) as u64);
            write_number(&mut out, run.client);
            write_number(&mut out, run.end_of(from).into());
            for block in &run.blocks[from..to] {
                out.extend_from_slice(block.bytes);
            }
        }
        let mut by_client: BTreeMap<u64, Vec<(u32, u32)>> = BTreeMap::new();
        for &(client, from, length) in deletions {
            if length > 0 {
                by_client.entry(client).or_default().push((from, length));
            }
        }
        write_number(&mut out, by_client.len() as u64);
        for (client, ranges) in by_client {
            write_number(&mut out, client);
            write_number(&mut out, ranges.len() as u64);
            for (from, length) in ranges {
                write_number(&mut out, from.into());
                write_number(&mut out, length.into());
            }
        }
        out
    }
}
