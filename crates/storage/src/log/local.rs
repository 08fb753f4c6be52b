//! The local durability provider: segments on this machine's disk, `fdatasync` after each group.
//!
//! A segment is synced before the next one is begun. A valid header therefore proves that everything before its first
//! position was durable.

use super::provider::{Durability, Group};
use super::segment::{HEADER_BLOCK, Segment, SegmentHeader};
use super::segment_pool::SegmentPool;
use crate::ident::{Epoch, Lsn};
use crate::limits::GATHERED_BYTES;
use crate::timing;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The segment being written.
pub(crate) struct LocalSegments {
    pool: Arc<SegmentPool>,
    epoch: Epoch,
    current: Option<Current>,
    /// Small transactions are gathered here and written with one call.
    gathered: Vec<u8>,
}

struct Current {
    segment: Segment,
    at: u64,
}

impl LocalSegments {
    /// Begins without a segment: the first group opens one, whose header marks the beginning of this epoch.
    pub(crate) fn new(pool: Arc<SegmentPool>, epoch: Epoch) -> Self {
        Self {
            pool,
            epoch,
            current: None,
            gathered: Vec::new(),
        }
    }

    /// Begins the next prepared segment. The header is durable before a record is written.
    fn begin_segment(&mut self, first: Lsn) -> io::Result<()> {
        if let Some(full) = &self.current {
            full.segment.file.sync()?;
        }
        let segment = self.pool.take()?;
        let header = SegmentHeader {
            epoch: self.epoch,
            number: segment.number,
            first,
            bytes: segment.bytes,
        };
        segment.file.write_at(&header.encode(), 0)?;
        segment.file.sync()?;
        self.pool.begun(&segment, first);
        self.current = Some(Current {
            segment,
            at: HEADER_BLOCK,
        });
        Ok(())
    }

    /// Writes and syncs a group. Returns the duration of the sync.
    fn write(&mut self, group: &Group<'_>) -> io::Result<Duration> {
        let mut lsn = group.first;
        for record in group.records() {
            if record.len() as u64 > self.left() {
                self.flush()?;
                self.begin_segment(lsn)?;
            }
            self.put(record)?;
            lsn = lsn.advance(record.len());
        }
        self.flush()?;
        let begun = timing::now();
        if let Some(current) = &self.current {
            current.segment.file.sync()?;
        }
        Ok(begun.elapsed())
    }

    fn left(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| {
            current.segment.bytes - current.at - self.gathered.len() as u64
        })
    }

    /// Gathers a record, or writes it if it is large.
    fn put(&mut self, record: &[u8]) -> io::Result<()> {
        if self.gathered.len() + record.len() > GATHERED_BYTES {
            self.flush()?;
        }
        if record.len() > GATHERED_BYTES / 4 {
            self.flush()?;
            return self.write_at_end(record);
        }
        self.gathered.extend_from_slice(record);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut gathered = std::mem::take(&mut self.gathered);
        if !gathered.is_empty() {
            self.write_at_end(&gathered)?;
        }
        gathered.clear();
        self.gathered = gathered;
        Ok(())
    }

    fn write_at_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        let current = self.current.as_mut();
        let current = current.ok_or_else(|| io::Error::other("no segment has been begun"))?;
        current.segment.file.write_at(bytes, current.at)?;
        current.at += bytes.len() as u64;
        Ok(())
    }
}

impl Durability for LocalSegments {
    fn append(&mut self, group: &Group<'_>) -> io::Result<Duration> {
        self.write(group)
    }
}
