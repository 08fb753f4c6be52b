//! Reads the log back: every transaction of the tail, in order. Decides where the tail ends.
//!
//! A record is accepted if its header's checksum, position and epoch are valid, and so is its payload's checksum. The
//! first invalid record ends the log, **unless** it was provably durable, which means damage:
//! - a later segment begins after it (a segment is begun only when everything before it is durable), or
//! - a valid record after it says that the durable LSN had passed it, or
//! - a segment without a valid header begins with exactly the record that should come next.
//!
//! A transaction of several records counts only once its last part is present.

use super::record::{self, HEADER_BYTES, Header};
use super::segment::{FoundHeader, HEADER_BLOCK, LOG_VERSION, SegmentHeader, file_name, number_of};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Error, Result};
use crate::ident::{Epoch, Generation, Lsn, Position};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A segment that was found in the log's directory.
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    file: Arc<dyn DiskFile>,
    pub(crate) header: FoundHeader,
}

impl Found {
    pub(crate) fn first(&self) -> Option<Lsn> {
        match self.header {
            FoundHeader::Valid(header) => Some(header.first),
            _ => None,
        }
    }

    /// Rewrites the records between two positions, and the header if there are no records before them in the segment.
    pub(crate) fn rewrite(&self, from: Lsn, to: Lsn) -> std::io::Result<()> {
        let FoundHeader::Valid(header) = self.header else {
            return Ok(());
        };
        if header.first >= from {
            self.file.write_at(&header.encode(), 0)?;
        }
        let start = from.0.saturating_sub(header.first.0);
        let end = to.0.saturating_sub(header.first.0);
        let end = end.min(header.bytes.saturating_sub(HEADER_BLOCK));
        if start < end {
            let mut bytes = vec![0; (end - start) as usize];
            let read = self.file.read_at(&mut bytes, HEADER_BLOCK + start)?;
            self.file.write_at(&bytes[..read], HEADER_BLOCK + start)?;
        }
        Ok(())
    }

    pub(crate) fn sync(&self) -> std::io::Result<()> {
        self.file.sync()
    }
}

/// Lists the segments by number.
pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<Found>> {
    let failed = |error| Error::io(format_args!("reading the log in {}", dir.display()), &error);
    let mut numbers: Vec<u64> = disk
        .list(dir)
        .map_err(failed)?
        .iter()
        .filter_map(|n| number_of(n))
        .collect();
    numbers.sort_unstable();
    let paths = numbers
        .into_iter()
        .map(|number| dir.join(file_name(number)));
    open(disk, paths)
}

/// Opens segments, given from the oldest to the newest.
pub(crate) fn open(
    disk: &dyn Disk,
    paths: impl IntoIterator<Item = PathBuf>,
) -> Result<Vec<Found>> {
    paths
        .into_iter()
        .map(|path| {
            let failed = |error| {
                Error::io(
                    format_args!("reading the log segment {}", path.display()),
                    &error,
                )
            };
            let name = path.file_name().map(|name| name.to_string_lossy());
            let number = name.and_then(|name| number_of(&name)).unwrap_or(0);
            let file = disk.open(&path, OpenMode::Existing).map_err(failed)?;
            let mut block = [0; 64];
            let read = file.read_at(&mut block, 0).map_err(failed)?;
            let header = match SegmentHeader::decode(&block[..read]) {
                FoundHeader::Valid(h) if h.number != number => FoundHeader::Invalid,
                FoundHeader::Other(version) => {
                    let what = format_args!("the log segment {}", path.display());
                    return Err(Error::unknown_format(what, version, LOG_VERSION));
                }
                header => header,
            };
            Ok(Found {
                number,
                path,
                file,
                header,
            })
        })
        .collect()
}

/// One transaction in the log.
pub(crate) struct Logged<'a> {
    /// The headers and payloads of its records.
    pub(crate) parts: &'a [(Header, Cow<'a, [u8]>)],
    /// The position after its last record.
    pub(crate) end: Lsn,
}

impl Logged<'_> {
    /// The end of the transaction among the positions of all logs.
    pub(crate) fn position(&self) -> Position {
        let first = self.parts.first();
        let generation = first.map_or(Generation(0), |(header, _)| header.epoch.into());
        Position::at(generation, self.end)
    }
}

/// Passes every complete transaction from `redo` on to `take`, in order, and returns where the log ends. With `until`,
/// the end of a transaction that is known to be durable, it stops there.
pub(crate) fn read(
    segments: &[Found],
    redo: Lsn,
    until: Option<Lsn>,
    mut take: impl FnMut(&Logged<'_>) -> Result<()>,
) -> Result<Lsn> {
    let used: Vec<&Found> = segments.iter().filter(|s| s.first().is_some()).collect();
    let start = used.iter().rposition(|s| s.first() <= Some(redo));
    let mut end = redo;
    let Some(start) = start else {
        // A segment is recycled only when its successor has a header, so there is always one that covers redo.
        return match segments.first() {
            Some(first) if redo > Lsn::ZERO || !used.is_empty() => Err(damaged(
                first,
                redo,
                "the segment that holds it is missing, or its header is damaged",
            )),
            None if redo > Lsn::ZERO => Err(Error::refused(format!(
                "the log is missing: according to the manifest it continues at position {redo}. Nothing was changed; restore the data directory from a backup"
            ))),
            _ => {
                refuse_lost_header(segments, redo, (0, Epoch(0)))?;
                Ok(redo)
            }
        };
    };
    // The parts of a chain that continues in the next segment.
    let mut carried: Vec<(Header, Vec<u8>)> = Vec::new();
    for (index, segment) in used.iter().enumerate().skip(start) {
        let next = used.get(index + 1);
        let (Some(first), FoundHeader::Valid(header)) = (segment.first(), segment.header) else {
            continue;
        };
        let bytes = read_all(segment)?;
        let mut parts: Vec<(Header, Cow<'_, [u8]>)> = carried
            .drain(..)
            .map(|(h, payload)| (h, Cow::Owned(payload)))
            .collect();
        let mut cursor = Cursor {
            bytes: &bytes,
            first,
            epoch: header.epoch,
            at: end.max(first),
        };
        if cursor.at > first && index > start {
            return Err(damaged(
                segment,
                end,
                "two segments cover the same positions",
            ));
        }
        while next.and_then(|n| n.first()) != Some(cursor.at) {
            let Some((header, payload)) = cursor.record() else {
                break;
            };
            let last = header.last_part;
            parts.push((header, Cow::Borrowed(payload)));
            if last {
                take(&Logged {
                    parts: &parts,
                    end: cursor.at,
                })?;
                parts.clear();
                end = cursor.at;
                if Some(end) == until {
                    return Ok(end);
                }
            }
        }
        match next {
            Some(next) if next.first() == Some(cursor.at) => {
                if !parts.is_empty() && epoch_of(next) != Some(header.epoch) {
                    parts.clear();
                }
            }
            // A new epoch begins where recovery ended the last one, which may be before an unfinished chain.
            Some(next) if next.first() == Some(end) => parts.clear(),
            Some(_) => {
                return Err(damaged(
                    segment,
                    cursor.at,
                    "a later segment shows that more was durable",
                ));
            }
            None => {
                if let Some(later) = cursor.durable_beyond() {
                    return Err(damaged(
                        segment,
                        cursor.at,
                        &format!("the record at {} shows that it was durable", later.0),
                    ));
                }
                refuse_lost_header(segments, cursor.at, (segment.number, header.epoch))?;
            }
        }
        carried.extend(
            parts
                .into_iter()
                .map(|(h, payload)| (h, payload.into_owned())),
        );
    }
    Ok(end)
}

fn epoch_of(segment: &Found) -> Option<Epoch> {
    match segment.header {
        FoundHeader::Valid(header) => Some(header.epoch),
        _ => None,
    }
}

/// A header is synced before the first record of its segment. A segment without a valid header that contains exactly
/// the expected next record has therefore lost its header to damage.
fn refuse_lost_header(segments: &[Found], end: Lsn, after: (u64, Epoch)) -> Result<()> {
    for segment in segments
        .iter()
        .filter(|s| s.first().is_none() && s.number > after.0)
    {
        let first = header_at(segment, 0)?;
        let distance = first
            .filter(|first| first.lsn <= end)
            .map(|first| end.0 - first.lsn.0);
        let next = match distance {
            Some(distance) => header_at(segment, distance)?,
            None => None,
        };
        if next.is_some_and(|next| next.lsn == end && next.epoch >= after.1) {
            return Err(damaged(
                segment,
                end,
                "the segment's header is damaged, its records are not",
            ));
        }
    }
    Ok(())
}

/// The record header at a distance from a segment's first record.
fn header_at(segment: &Found, distance: u64) -> Result<Option<Header>> {
    let mut head = [0; HEADER_BYTES];
    let read = segment.file.read_at(&mut head, HEADER_BLOCK + distance);
    let failed = |error| {
        Error::io(
            format_args!("reading the log segment {}", segment.path.display()),
            &error,
        )
    };
    let read = read.map_err(failed)?;
    Ok(Header::read(&head[..read]))
}

fn read_all(segment: &Found) -> Result<Vec<u8>> {
    let failed = |error| {
        Error::io(
            format_args!("reading the log segment {}", segment.path.display()),
            &error,
        )
    };
    let len = segment
        .file
        .len()
        .map_err(failed)?
        .saturating_sub(HEADER_BLOCK);
    let mut bytes = vec![0; len as usize];
    let read = segment
        .file
        .read_at(&mut bytes, HEADER_BLOCK)
        .map_err(failed)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn damaged(segment: &Found, at: Lsn, evidence: &str) -> Error {
    Error::refused(format!(
        "the log is damaged in {} at position {at}: acknowledged commits are unreadable ({evidence}). Nothing was changed. \
         Restore the data directory from a backup, or copy it and check the disk",
        segment.path.display()
    ))
}

struct Cursor<'a> {
    bytes: &'a [u8],
    first: Lsn,
    epoch: Epoch,
    at: Lsn,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes
            .get((self.at.0 - self.first.0) as usize..)
            .unwrap_or_default()
    }

    fn record(&mut self) -> Option<(Header, &'a [u8])> {
        let rest = self.rest();
        let header = Header::read(rest)?;
        if !self.is_next(&header) {
            return None;
        }
        let payload = rest.get(HEADER_BYTES..header.length)?;
        if is_torn(&header, payload) {
            return None;
        }
        self.at = self.at.advance(header.length);
        Some((header, payload))
    }

    /// True of the record that belongs here, and not of an old one of a recycled segment.
    fn is_next(&self, header: &Header) -> bool {
        header.lsn == self.at && header.epoch == self.epoch
    }

    /// The position of a later valid record that says the durable LSN had passed this position.
    fn durable_beyond(&self) -> Option<Lsn> {
        let rest = self.rest();
        (record::ALIGN..rest.len())
            .step_by(record::ALIGN)
            .find_map(|offset| {
                let lsn = self.at.advance(offset);
                let bytes = &rest[offset..];
                if record::lsn_field(bytes) != Some(lsn) {
                    return None;
                }
                let header = Header::read(bytes)?;
                (header.epoch == self.epoch && header.durable > self.at).then_some(lsn)
            })
    }
}

/// True if the payload is not what the header says that it is.
pub(super) fn is_torn(header: &Header, payload: &[u8]) -> bool {
    crc32c::crc32c(payload) != header.payload_crc
}
