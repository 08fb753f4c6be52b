//! The segments that are not being written: prepared ones ahead of the log's end, used ones behind it.
//!
//! A thread prepares segments ahead, the writer takes them into use, and a checkpoint gives back those that are no
//! longer needed. They are recycled: their blocks are allocated already.

use super::segment::{HEADER_BLOCK, Segment};
use crate::disk::Disk;
use crate::error::Result;
use crate::ident::Lsn;
use crate::limits::PREPARED_SEGMENTS;
use crate::sync::Mutex;
use crate::wakeup::Wakeup;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// See the module.
pub(crate) struct SegmentPool {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    pub(super) segment_bytes: u64,
    segments: Mutex<Segments>,
    /// Wakes the thread that prepares segments.
    pub(crate) wakeup: Wakeup,
}

struct Segments {
    prepared: VecDeque<Segment>,
    next_number: u64,
    /// Segments in use, oldest first, with their first position; the last one is being written.
    used: VecDeque<(PathBuf, Lsn)>,
    /// Segments that no recovery needs.
    spare: Vec<PathBuf>,
}

impl SegmentPool {
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
            segments: Mutex::new(Segments {
                prepared: VecDeque::new(),
                next_number,
                used,
                spare,
            }),
            wakeup: Wakeup::default(),
        }
    }

    /// Bytes of records that a segment holds.
    pub(crate) fn capacity(&self) -> u64 {
        self.segment_bytes - HEADER_BLOCK
    }

    /// Prepares one segment. One caller at a time.
    pub(crate) fn prepare(&self) -> Result<()> {
        let (number, recycle) = {
            let mut segments = self.segments.lock();
            let number = segments.next_number;
            segments.next_number += 1;
            (number, segments.spare.pop())
        };
        let made = Segment::prepare(
            &*self.disk,
            &self.dir,
            number,
            self.segment_bytes,
            recycle.as_deref(),
        );
        let mut segments = self.segments.lock();
        match made {
            Ok(segment) => {
                segments.prepared.push_back(segment);
                Ok(())
            }
            Err(error) => {
                segments.next_number = number;
                segments.spare.extend(recycle);
                Err(error)
            }
        }
    }

    /// Takes back the segments that lie wholly before `redo`; those beyond what is kept prepared are removed.
    pub(crate) fn trim(&self, redo: Lsn) -> io::Result<()> {
        let mut surplus = {
            let mut segments = self.segments.lock();
            while segments.used.len() > 1 && segments.used[1].1 <= redo {
                if let Some((path, _)) = segments.used.pop_front() {
                    segments.spare.push(path);
                }
            }
            let kept = segments.spare.len().min(PREPARED_SEGMENTS);
            segments.spare.split_off(kept)
        };
        // The writer must not wait for this: removing a large file takes time.
        while let Some(path) = surplus.pop() {
            if let Err(error) = self.disk.remove(&path) {
                surplus.push(path);
                self.segments.lock().spare.append(&mut surplus);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The segments in use, oldest first.
    pub(crate) fn used(&self) -> Vec<PathBuf> {
        let segments = self.segments.lock();
        segments.used.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Takes the next prepared segment.
    pub(super) fn take(&self) -> io::Result<Segment> {
        let segment = self.segments.lock().prepared.pop_front();
        self.wakeup.request();
        // The log counts the room before it accepts a record, so there is always one.
        segment.ok_or_else(|| io::Error::other("no segment is prepared"))
    }

    /// A segment's header is durable: from now on its predecessors may be given back.
    pub(super) fn begun(&self, segment: &Segment, first: Lsn) {
        self.segments
            .lock()
            .used
            .push_back((segment.path.clone(), first));
    }
}
