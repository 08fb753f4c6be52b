//! Reads a range of the durable log while more is written and segments are recycled.
//!
//! A segment may be recycled during the read: it leaves the pool's list first, and then its bytes change. So each record is
//! checked, and if one is invalid, the list says whether that is damage.

use super::part::record_at;
use super::record::{HEADER_BYTES, Header};
use super::segment::{FoundHeader, HEADER_BLOCK, SegmentHeader};
use super::segment_pool::{Extent, SegmentPool};
use crate::disk::{Disk, OpenMode};
use crate::error::{Error, Result};
use crate::ident::{Epoch, Lsn};

/// Whole records, in sequence.
pub(crate) struct Range {
    pub(crate) first: Lsn,
    pub(crate) records: Vec<u8>,
}

/// Reads the records from `from` on, which is the position of a record: those of one segment, up to `end`, which is durable
/// and after `from`, and at most `most` bytes, but at least one record. If `from` is no longer kept, the range begins at the
/// oldest record that is.
pub(crate) fn read(
    disk: &dyn Disk,
    segments: &SegmentPool,
    from: Lsn,
    end: Lsn,
    most: usize,
) -> Result<Range> {
    loop {
        let extent = segments.extent_at(from).ok_or_else(|| missing(from))?;
        let first = from.max(extent.first);
        let end = end.min(extent.end);
        if first >= end {
            return Err(missing(from));
        }
        match read_records(disk, &extent, first, end, most) {
            Ok(records) => return Ok(Range { first, records }),
            Err(error) if segments.has(&extent) => return Err(error),
            // It is being recycled.
            Err(_) => {}
        }
    }
}

fn read_records(
    disk: &dyn Disk,
    extent: &Extent,
    first: Lsn,
    end: Lsn,
    most: usize,
) -> Result<Vec<u8>> {
    let failed = |error| {
        Error::io(
            format_args!("reading the log segment {}", extent.path.display()),
            &error,
        )
    };
    let file = disk
        .open(&extent.path, OpenMode::Existing)
        .map_err(failed)?;
    let mut block = [0; 64];
    let read = file.read_at(&mut block, 0).map_err(failed)?;
    let epoch = match SegmentHeader::decode(&block[..read]) {
        FoundHeader::Valid(header) if header.first == extent.first => header.epoch,
        _ => return Err(damaged(extent, extent.first)),
    };
    let left = (end.0 - first.0) as usize;
    let bytes = |length: usize| {
        let mut bytes = vec![0; length];
        let offset = HEADER_BLOCK + (first.0 - extent.first.0);
        let read = file.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    };
    let mut records = bytes(left.min(most.max(HEADER_BYTES))).map_err(failed)?;
    if let Some(large) = Header::read(&records)
        && large.length > records.len()
    {
        records = bytes(left.min(large.length)).map_err(failed)?;
    }
    let whole = whole_records(&records, first, epoch, left);
    let whole = whole.map_err(|at| damaged(extent, at))?;
    records.truncate(whole);
    Ok(records)
}

/// The length of the whole records at the beginning of `bytes`; the last one may be cut off there. `left` is the length of
/// all records. Returns the position of an invalid one.
fn whole_records(bytes: &[u8], first: Lsn, epoch: Epoch, left: usize) -> Result<usize, Lsn> {
    let mut at = 0;
    while at < bytes.len() {
        let (rest, lsn) = (&bytes[at..], first.advance(at));
        match record_at(rest, lsn) {
            Some((header, _)) if header.epoch == epoch => at += header.length,
            None if at > 0 && is_cut_off(rest, lsn, left - at) => break,
            _ => return Err(lsn),
        }
    }
    Ok(at)
}

/// Returns whether `rest` is the beginning of a record. `left` bytes of records begin there.
fn is_cut_off(rest: &[u8], lsn: Lsn, left: usize) -> bool {
    if rest.len() < HEADER_BYTES {
        return rest.len() < left;
    }
    let header = Header::read(rest).filter(|header| header.lsn == lsn);
    header.is_some_and(|header| header.length > rest.len() && header.length <= left)
}

fn damaged(extent: &Extent, at: Lsn) -> Error {
    Error::damaged(format!(
        "the log is damaged in {} at position {at}: the commits from there on cannot be copied. Check the disk, and do not \
         stop the process before its next checkpoint: the commits are still in memory",
        extent.path.display()
    ))
}

fn missing(from: Lsn) -> Error {
    Error::damaged(format!(
        "no segment of the log has position {from}: copy the history again, with its manifest"
    ))
}
