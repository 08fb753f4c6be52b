//! The local durability provider: segments on this machine's disk, `fdatasync` after each group.
//!
//! [`LocalSegments`] is the writer's side; [`Shelf`] is shared with housekeeping, which prepares segments ahead and
//! takes back those that a checkpoint has made superfluous. A segment is synced before its successor is begun, so a
//! valid header says that everything before its first position was durable.

use super::provider::{Durability, Group, NotDurable};
use super::segment::{HEADER_BLOCK, Segment, SegmentHeader};
use crate::disk::Disk;
use crate::error::Result;
use crate::ident::{Epoch, Lsn};
use crate::limits::PREPARED_SEGMENTS;
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The segments that are not being written: prepared ones ahead, used ones behind.
pub(crate) struct Shelf {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segment_bytes: u64,
    inner: Mutex<ShelfInner>,
}

struct ShelfInner {
    prepared: VecDeque<Segment>,
    next_number: u64,
    /// Segments in use, oldest first, with their first position; the last one is being written.
    used: VecDeque<(PathBuf, Lsn)>,
    /// Segments that no recovery needs.
    spare: Vec<PathBuf>,
}

impl Shelf {
    /// `used` are the segments that recovery found and still needs, `spare` those it does not need.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        segment_bytes: u64,
        next_number: u64,
        used: VecDeque<(PathBuf, Lsn)>,
        spare: Vec<PathBuf>,
    ) -> Self {
        Self {
            disk,
            dir,
            segment_bytes,
            inner: Mutex::new(ShelfInner {
                prepared: VecDeque::new(),
                next_number,
                used,
                spare,
            }),
        }
    }

    /// Bytes of records that a segment holds.
    pub(crate) fn capacity(&self) -> u64 {
        self.segment_bytes - HEADER_BLOCK
    }

    /// Prepares one segment. One caller at a time.
    pub(crate) fn prepare(&self) -> Result<()> {
        let (number, recycle) = {
            let mut inner = self.inner.lock();
            let number = inner.next_number;
            inner.next_number += 1;
            (number, inner.spare.pop())
        };
        let made = Segment::prepare(
            &*self.disk,
            &self.dir,
            number,
            self.segment_bytes,
            recycle.as_deref(),
        );
        let mut inner = self.inner.lock();
        match made {
            Ok(segment) => {
                inner.prepared.push_back(segment);
                Ok(())
            }
            Err(error) => {
                inner.next_number = number;
                inner.spare.extend(recycle);
                Err(error)
            }
        }
    }

    /// Takes back the segments that lie wholly before `redo`; those beyond what is kept prepared are removed.
    pub(crate) fn trim(&self, redo: Lsn) -> io::Result<()> {
        let mut inner = self.inner.lock();
        while inner.used.len() > 1 && inner.used[1].1 <= redo {
            if let Some((path, _)) = inner.used.pop_front() {
                inner.spare.push(path);
            }
        }
        while inner.spare.len() > PREPARED_SEGMENTS {
            if let Some(path) = inner.spare.pop() {
                self.disk.remove(&path)?;
            }
        }
        Ok(())
    }

    /// The segments in use, oldest first.
    pub(crate) fn used(&self) -> Vec<PathBuf> {
        let inner = self.inner.lock();
        inner.used.iter().map(|(path, _)| path.clone()).collect()
    }

    fn take(&self) -> io::Result<Segment> {
        let mut inner = self.inner.lock();
        let segment = inner.prepared.pop_front();
        // The log counts the room before it accepts a record, so there is always one.
        let segment = segment.ok_or_else(|| io::Error::other("no segment is prepared"))?;
        Ok(segment)
    }

    /// A segment's header is durable: from now on its predecessors may be given back.
    fn begun(&self, segment: &Segment, first: Lsn) {
        self.inner
            .lock()
            .used
            .push_back((segment.path.clone(), first));
    }
}

/// The segment being written.
pub(crate) struct LocalSegments {
    shelf: Arc<Shelf>,
    epoch: Epoch,
    current: Option<Current>,
}

struct Current {
    segment: Segment,
    at: u64,
}

impl LocalSegments {
    /// Begins with no segment: the first group opens one, whose header marks where this epoch begins.
    pub(crate) fn new(shelf: Arc<Shelf>, epoch: Epoch) -> Self {
        Self {
            shelf,
            epoch,
            current: None,
        }
    }

    /// Takes the next prepared segment into use. The header is durable before a record is written.
    fn begin_segment(&mut self, first: Lsn) -> io::Result<()> {
        if let Some(full) = &self.current {
            full.segment.file.sync()?;
        }
        let segment = self.shelf.take()?;
        let header = SegmentHeader {
            epoch: self.epoch,
            number: segment.number,
            first,
            bytes: self.shelf.segment_bytes,
        };
        segment.file.write_at(&header.encode(), 0)?;
        segment.file.sync()?;
        self.shelf.begun(&segment, first);
        self.current = Some(Current {
            segment,
            at: HEADER_BLOCK,
        });
        Ok(())
    }

    fn write(&mut self, group: &Group<'_>) -> io::Result<()> {
        let mut start = 0;
        let mut end = 0;
        let mut left = self.left();
        for &length in group.lengths {
            if length as u64 > left {
                self.put(&group.bytes[start..end])?;
                self.begin_segment(group.first.advance(end))?;
                start = end;
                left = self.left();
            }
            end += length;
            left -= length as u64;
        }
        self.put(&group.bytes[start..end])?;
        match &self.current {
            Some(current) => current.segment.file.sync(),
            None => Ok(()),
        }
    }

    fn left(&self) -> u64 {
        self.current
            .as_ref()
            .map_or(0, |current| self.shelf.segment_bytes - current.at)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(current) = &mut self.current
            && !bytes.is_empty()
        {
            current.segment.file.write_at(bytes, current.at)?;
            current.at += bytes.len() as u64;
        }
        Ok(())
    }
}

impl Durability for LocalSegments {
    fn append(&mut self, group: &Group<'_>) -> Result<(), NotDurable> {
        self.write(group).map_err(NotDurable::Unknown)
    }
}
