//! Runs, read where they are: some of their bytes at a time.
//!
//! Contract: what it returns has as many bytes as were asked for. It cannot know whether they are those that were written: the checksum
//! of the manifest is of a whole run, so the reader must check what they hold.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::{Bytes, BytesMut};

use crate::{Error, Store, StoredRun, download::again};

/// The length of the blocks in which runs are read.
const BLOCK_BYTES: u64 = 256 << 10;

/// How many blocks are read at once where the block before them has been read.
const BLOCKS_AHEAD: u64 = 8;

/// The most blocks that are read at once: 8 MiB.
const MAX_BLOCKS_AT_ONCE: u64 = 32;

/// The most that is kept of them in memory.
const CACHE_BYTES: u64 = 64 << 20;

/// Reads ranges of runs, in blocks, several at once, and keeps those that were used last: at most 64 MiB in memory.
#[derive(Debug)]
pub struct Ranges {
    store: Store,
    blocks: Mutex<Blocks>,
}

/// A run's key, and the number of a block in it.
type Place = (String, u64);

#[derive(Debug, Default)]
struct Blocks {
    /// Each with the time of its last use.
    kept: HashMap<Place, (Bytes, u64)>,
    by_use: BTreeMap<u64, Place>,
    uses: u64,
    bytes: u64,
}

impl Blocks {
    fn get(&mut self, place: &Place) -> Option<Bytes> {
        let (bytes, used) = self.kept.get_mut(place)?;
        self.uses += 1;
        self.by_use.remove(used);
        *used = self.uses;
        self.by_use.insert(self.uses, place.clone());
        Some(bytes.clone())
    }

    fn has(&self, place: &Place) -> bool {
        self.kept.contains_key(place)
    }

    fn put(&mut self, place: Place, bytes: Bytes) {
        self.uses += 1;
        self.bytes += bytes.len() as u64;
        self.by_use.insert(self.uses, place.clone());
        if let Some((old, used)) = self.kept.insert(place, (bytes, self.uses)) {
            // Another has read it meanwhile.
            self.by_use.remove(&used);
            self.bytes -= old.len() as u64;
        }
        while self.bytes > CACHE_BYTES
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            let dropped = self.kept.remove(&oldest);
            self.bytes -= dropped.map_or(0, |(bytes, _)| bytes.len() as u64);
        }
    }
}

impl Ranges {
    /// Keeps nothing yet; sends no request.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            blocks: Mutex::default(),
        }
    }

    /// The bytes of a run in a range. It must end where the run does, or before.
    ///
    /// # Errors
    /// [`Error::Missing`] and [`Error::Damaged`] if an object of the run is not in the store, or shorter or longer than it was; or what
    /// the store says, after several attempts.
    pub async fn read(&self, run: &StoredRun, range: Range<u64>) -> Result<Bytes, Error> {
        if range.start > range.end || range.end > run.bytes {
            let how = format!("it has {} bytes, and not {range:?}", run.bytes);
            return Err(Error::damaged(&run.key, how));
        }
        let mut read = BytesMut::new();
        let mut at = range.start;
        while at < range.end {
            let block = at / BLOCK_BYTES;
            let begin = block * BLOCK_BYTES;
            let end = range.end.min(begin + BLOCK_BYTES);
            let wanted = range.end.div_ceil(BLOCK_BYTES) - block;
            let bytes = self.block(run, block, wanted).await?;
            let part = bytes.slice((at - begin) as usize..(end - begin) as usize);
            if at == range.start && end == range.end {
                return Ok(part);
            }
            read.extend_from_slice(&part);
            at = end;
        }
        Ok(read.freeze())
    }

    /// Forgets what it has kept, so that everything is read again.
    pub fn forget(&self) {
        *self.blocks() = Blocks::default();
    }

    /// How many bytes it keeps now.
    pub fn kept(&self) -> u64 {
        self.blocks().bytes
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block, of which this many are wanted from here on.
    async fn block(&self, run: &StoredRun, number: u64, wanted: u64) -> Result<Bytes, Error> {
        let place = |number| (run.key.clone(), number);
        if let Some(bytes) = self.blocks().get(&place(number)) {
            return Ok(bytes);
        }
        let before = number.checked_sub(1);
        let goes_on = before.is_some_and(|before| self.blocks().has(&place(before)));
        let is_last = (number + 1) * BLOCK_BYTES >= run.bytes;
        // A run ends with what says where the rest is, and its last block may be short.
        let first = before.filter(|_| is_last && !goes_on).unwrap_or(number);
        let ahead = if goes_on { BLOCKS_AHEAD } else { 1 };
        let count = wanted.clamp(ahead, MAX_BLOCKS_AT_ONCE);
        let end = run.bytes.min((number + count) * BLOCK_BYTES);
        let read = self.fetch(run, first * BLOCK_BYTES..end).await?;
        let mut blocks = self.blocks();
        let mut found = Bytes::new();
        for (block, bytes) in (first..).zip(read.chunks(BLOCK_BYTES as usize)) {
            // Each is dropped alone.
            let bytes = Bytes::copy_from_slice(bytes);
            if block == number {
                found = bytes.clone();
            }
            blocks.put(place(block), bytes);
        }
        Ok(found)
    }

    /// Reads a range from the parts that have it.
    async fn fetch(&self, run: &StoredRun, range: Range<u64>) -> Result<Bytes, Error> {
        let mut read = BytesMut::new();
        let mut begin = 0;
        for (key, length) in run.parts() {
            let end = begin + length;
            let from = range.start.max(begin);
            let to = range.end.min(end);
            if from < to {
                let within = from - begin..to - begin;
                let bytes = self.part(&key, length, within).await?;
                if from == range.start && to == range.end {
                    return Ok(bytes);
                }
                read.extend_from_slice(&bytes);
            }
            begin = end;
        }
        Ok(read.freeze())
    }

    async fn part(&self, key: &str, length: u64, within: Range<u64>) -> Result<Bytes, Error> {
        let store = &self.store;
        let damaged = || {
            let how = format!("it does not have the {length} bytes that were written");
            Error::damaged(key, how)
        };
        let bytes = match again(store, || store.read_range(key, within.clone())).await {
            // A store refuses a range that an object is too short for.
            Err(Error::Store { .. }) => {
                let whole = store.read(key).await?;
                let is_whole = |whole: &Bytes| whole.len() as u64 == length;
                if whole.as_ref().is_some_and(|whole| !is_whole(whole)) {
                    return Err(damaged());
                }
                whole.map(|whole| whole.slice(within.start as usize..within.end as usize))
            }
            read => read?,
        };
        let bytes = bytes.ok_or_else(|| Error::Missing {
            key: key.to_owned(),
        })?;
        if bytes.len() as u64 != within.end - within.start {
            return Err(damaged());
        }
        Ok(bytes)
    }
}
