//! The segments that are not being written: prepared ones ahead of the log's end, and used ones.
//!
//! A thread prepares segments ahead, the writer takes them, and a checkpoint returns those that are no longer needed.
//! They are recycled, because their blocks are already allocated.
//!
//! A segment is prepared with twice the length of the log that is kept at that time, within limits: a directory with
//! few writes stays small, and a busy one seldom switches segments.

use super::segment::{HEADER_BLOCK, Segment};
use crate::disk::Disk;
use crate::error::{ErrorKind, Result};
use crate::ident::Lsn;
use crate::limits::{MIN_SEGMENT_BYTES, PREPARED_SEGMENTS};
use crate::sync::Mutex;
use crate::wakeup::Wakeup;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// See the module.
pub(crate) struct SegmentPool {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The size to which segments grow.
    largest: u64,
    segments: Mutex<Segments>,
    /// Held while segments are prepared: their numbers are in the order in which the log gets them.
    pub(crate) preparing: Mutex<()>,
    /// Wakes the thread that prepares segments.
    pub(crate) wakeup: Wakeup,
}

struct Segments {
    prepared: VecDeque<Segment>,
    next_number: u64,
    /// Segments in use, oldest first; the last one is being written.
    used: VecDeque<UsedSegment>,
    /// Segments that no recovery needs.
    spare: Vec<SpareSegment>,
}

/// A segment whose header is durable.
pub(crate) struct UsedSegment {
    pub(crate) path: PathBuf,
    /// The position of its first record.
    pub(crate) first: Lsn,
    pub(crate) bytes: u64,
}

/// The part of a segment that is in use.
pub(crate) struct Extent {
    pub(crate) path: PathBuf,
    /// The position of the segment's first record.
    pub(crate) first: Lsn,
    /// Its records end here, or before.
    pub(crate) end: Lsn,
}

struct SpareSegment {
    path: PathBuf,
    bytes: u64,
}

impl From<UsedSegment> for SpareSegment {
    fn from(UsedSegment { path, bytes, .. }: UsedSegment) -> Self {
        Self { path, bytes }
    }
}

impl SegmentPool {
    /// `used` are the segments that recovery found and still needs, `spare` those to recycle first.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        largest: u64,
        next_number: u64,
        used: VecDeque<UsedSegment>,
        spare: Vec<UsedSegment>,
    ) -> Self {
        let spare = spare.into_iter().map(SpareSegment::from).collect();
        Self {
            disk,
            dir,
            largest,
            segments: Mutex::new(Segments {
                prepared: VecDeque::new(),
                next_number,
                used,
                spare,
            }),
            preparing: Mutex::default(),
            wakeup: Wakeup::default(),
        }
    }

    /// The largest capacity of a segment, in bytes of records.
    pub(crate) fn largest_capacity(&self) -> u64 {
        self.largest - HEADER_BLOCK
    }

    /// The size of the next segment to prepare for a log that needs this many bytes.
    pub(crate) fn next_bytes(&self, needed: u64) -> u64 {
        let wanted = self.wanted_bytes(needed);
        let segments = self.segments.lock();
        let recycled = segments
            .spare_for(wanted)
            .map(|at| segments.spare[at].bytes);
        recycled.unwrap_or(wanted)
    }

    /// The size without a spare segment.
    fn wanted_bytes(&self, needed: u64) -> u64 {
        let whole = needed
            .saturating_add(HEADER_BLOCK)
            .checked_next_power_of_two();
        whole
            .unwrap_or(self.largest)
            .clamp(MIN_SEGMENT_BYTES, self.largest)
    }

    /// Prepares one segment for a log that needs this many bytes. Returns its capacity in bytes of records. The
    /// caller holds `preparing`.
    pub(crate) fn prepare(&self, needed: u64) -> Result<u64> {
        let wanted = self.wanted_bytes(needed);
        let recycle = {
            let mut segments = self.segments.lock();
            let spare = segments.spare_for(wanted);
            spare.map(|at| segments.spare.swap_remove(at))
        };
        let whole = recycle.is_none();
        match self.prepare_from(wanted, recycle) {
            // A smaller one needs no more space.
            Err(error) if whole && error.kind() == ErrorKind::NoSpace => {
                let spare = self.segments.lock().spare.pop();
                match spare {
                    Some(spare) => self.prepare_from(wanted, Some(spare)),
                    None => Err(error),
                }
            }
            made => made,
        }
    }

    /// Prepares a segment of this size, or recycles a spare one.
    fn prepare_from(&self, bytes: u64, recycle: Option<SpareSegment>) -> Result<u64> {
        let number = {
            let mut segments = self.segments.lock();
            segments.next_number += 1;
            segments.next_number - 1
        };
        let (bytes, old) = match &recycle {
            Some(spare) => (spare.bytes, Some(spare.path.as_path())),
            None => (bytes, None),
        };
        let made = Segment::prepare(&*self.disk, &self.dir, number, bytes, old);
        let mut segments = self.segments.lock();
        match made {
            Ok(segment) => {
                let capacity = segment.capacity();
                segments.prepared.push_back(segment);
                Ok(capacity)
            }
            Err(error) => {
                segments.next_number = number;
                segments.spare.extend(recycle);
                Err(error)
            }
        }
    }

    /// Takes back the segments that are entirely before `redo`; those beyond the number to keep are removed.
    pub(crate) fn trim(&self, redo: Lsn) -> io::Result<()> {
        let mut surplus = {
            let mut segments = self.segments.lock();
            while segments.used.len() > 1 && segments.used[1].first <= redo {
                let used = segments.used.pop_front();
                segments.spare.extend(used.map(SpareSegment::from));
            }
            // Keep the largest.
            segments.spare.sort_by_key(|spare| Reverse(spare.bytes));
            let kept = segments.spare.len().min(PREPARED_SEGMENTS);
            segments.spare.split_off(kept)
        };
        // The writer must not wait for this: removing a large file takes time.
        while let Some(spare) = surplus.pop() {
            if let Err(error) = self.disk.remove(&spare.path) {
                surplus.push(spare);
                self.segments.lock().spare.append(&mut surplus);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The segment that has the record of a position or, if it is no longer in use, the oldest one.
    pub(crate) fn extent_at(&self, from: Lsn) -> Option<Extent> {
        let segments = self.segments.lock();
        let used = &segments.used;
        // Of two that have it the later one does: an earlier epoch ended before it.
        let place = used.iter().rposition(|segment| segment.first <= from);
        let place = place.unwrap_or(0);
        let segment = used.get(place)?;
        let capacity = segment.bytes.saturating_sub(HEADER_BLOCK);
        let full = segment.first.advance(capacity as usize);
        let later = used.iter().skip(place + 1).map(|segment| segment.first);
        Some(Extent {
            path: segment.path.clone(),
            first: segment.first,
            end: later.fold(full, Lsn::min),
        })
    }

    /// Returns whether a segment is still in use.
    pub(crate) fn has(&self, extent: &Extent) -> bool {
        let segments = self.segments.lock();
        let mut used = segments.used.iter();
        used.any(|segment| segment.path == extent.path && segment.first == extent.first)
    }

    /// The segments in use, oldest first.
    pub(crate) fn used(&self) -> Vec<PathBuf> {
        let segments = self.segments.lock();
        segments.used.iter().map(|used| used.path.clone()).collect()
    }

    /// Takes the next prepared segment.
    pub(super) fn take(&self) -> io::Result<Segment> {
        let segment = self.segments.lock().prepared.pop_front();
        self.wakeup.request();
        // The log reserves space before it accepts a record, so there is always one.
        segment.ok_or_else(|| io::Error::other("no segment is prepared"))
    }

    /// Called when a segment's header is durable: from now on its predecessors may be recycled.
    pub(super) fn begun(&self, segment: &Segment, first: Lsn) {
        self.segments.lock().used.push_back(UsedSegment {
            path: segment.path.clone(),
            first,
            bytes: segment.bytes,
        });
    }
}

impl Segments {
    /// The smallest spare segment of at least this many bytes.
    fn spare_for(&self, bytes: u64) -> Option<usize> {
        let fitting = self.spare.iter().enumerate();
        fitting
            .filter(|(_, spare)| spare.bytes >= bytes)
            .min_by_key(|(_, spare)| spare.bytes)
            .map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;
    use std::path::Path;

    const MIN: u64 = MIN_SEGMENT_BYTES;

    fn pool(disk: &SimDisk) -> SegmentPool {
        let dir = Path::new("/log");
        disk.create_dir_all(dir).unwrap();
        let disk = Arc::new(disk.clone());
        SegmentPool::new(
            disk,
            dir.to_owned(),
            64 * MIN,
            1,
            VecDeque::new(),
            Vec::new(),
        )
    }

    /// Prepares segments for a log that needs this many bytes each time, takes them into use, and gives back all but the last.
    fn spare(pool: &SegmentPool, needed: &[u64]) {
        let mut at = Lsn(1);
        for needed in needed {
            at = at.advance(pool.prepare(*needed).unwrap() as usize);
            let segment = pool.take().unwrap();
            pool.begun(&segment, at);
        }
        pool.trim(at).unwrap();
    }

    #[test]
    fn a_segment_has_room_for_what_is_needed_within_bounds() {
        let pool = pool(&SimDisk::new());
        for (needed, bytes) in [
            (0, MIN),
            (MIN - HEADER_BLOCK, MIN),
            (MIN, 2 * MIN),
            (5 * MIN, 8 * MIN),
            (1 << 40, 64 * MIN),
            (u64::MAX, 64 * MIN),
        ] {
            assert_eq!(pool.next_bytes(needed), bytes, "{needed}");
        }
        assert_eq!(pool.prepare(5 * MIN).unwrap(), 8 * MIN - HEADER_BLOCK);
    }

    #[test]
    fn the_smallest_spare_segment_that_is_large_enough_is_written_again() {
        let disk = SimDisk::new();
        let pool = pool(&disk);
        spare(&pool, &[0, 10 * MIN, 3 * MIN, 0]);
        // Two are kept, the largest.
        assert_eq!(pool.next_bytes(0), 4 * MIN);
        assert_eq!(pool.next_bytes(4 * MIN), 16 * MIN);
        assert_eq!(pool.next_bytes(20 * MIN), 32 * MIN);
        let used = disk.used();
        assert_eq!(pool.prepare(0).unwrap(), 4 * MIN - HEADER_BLOCK);
        assert_eq!(disk.used(), used);
    }

    #[test]
    fn on_a_full_disk_a_smaller_segment_is_written_again() {
        let disk = SimDisk::new();
        let pool = pool(&disk);
        spare(&pool, &[0, 0, 0]);
        disk.set_capacity(Some(disk.used() + MIN));
        assert_eq!(pool.prepare(20 * MIN).unwrap(), MIN - HEADER_BLOCK);
        assert_eq!(pool.prepare(20 * MIN).unwrap(), MIN - HEADER_BLOCK);
        let refused = pool.prepare(20 * MIN).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoSpace);
        let names = disk.list(Path::new("/log")).unwrap();
        assert_eq!(names.len(), 3, "nothing half made stays: {names:?}");
    }
}
