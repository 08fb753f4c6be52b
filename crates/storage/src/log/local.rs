//! The local durability provider: segments on this machine's disk, `fdatasync` after each group.
//!
//! A segment is synced before its successor is begun, so a valid header says that everything before its first position
//! was durable.

use super::provider::{Durability, Group, NotDurable};
use super::segment::{HEADER_BLOCK, Segment, SegmentHeader};
use super::segment_pool::SegmentPool;
use crate::error::Result;
use crate::ident::{Epoch, Lsn};
use std::io;
use std::sync::Arc;

/// The segment being written.
pub(crate) struct LocalSegments {
    pool: Arc<SegmentPool>,
    epoch: Epoch,
    current: Option<Current>,
}

struct Current {
    segment: Segment,
    at: u64,
}

impl LocalSegments {
    /// Begins with no segment: the first group opens one, whose header marks where this epoch begins.
    pub(crate) fn new(pool: Arc<SegmentPool>, epoch: Epoch) -> Self {
        Self {
            pool,
            epoch,
            current: None,
        }
    }

    /// Takes the next prepared segment into use. The header is durable before a record is written.
    fn begin_segment(&mut self, first: Lsn) -> io::Result<()> {
        if let Some(full) = &self.current {
            full.segment.file.sync()?;
        }
        let segment = self.pool.take()?;
        let header = SegmentHeader {
            epoch: self.epoch,
            number: segment.number,
            first,
            bytes: self.pool.segment_bytes,
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
            .map_or(0, |current| self.pool.segment_bytes - current.at)
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
