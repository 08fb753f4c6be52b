//! The log's files. A segment is a 4096-byte header block followed by consecutive records; no record crosses into the
//! next segment.
//!
//! Segments begin small and grow with the load: each header records the length of its own segment.
//!
//! Segments are prepared ahead (zeroed and synced, so that a record's sync writes no file-system metadata) and named by
//! their number in advance. The header is written when the segment is begun, and synced before any record. Until then
//! its header block is zero.

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Error, Failure, Result};
use crate::ident::{Epoch, Lsn};
use crate::limits::{MAX_RECORD_PAYLOAD, MIN_SEGMENT_BYTES};
use bytes::{Buf, BufMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes before the first record.
pub(crate) const HEADER_BLOCK: u64 = 4096;

/// The version of the log's format.
pub(crate) const LOG_VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"abidelog";
const HEADER_FIELDS: usize = 48;
const ZERO_CHUNK: usize = 1 << 20;

/// The fields of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) epoch: Epoch,
    pub(crate) number: u64,
    pub(crate) first: Lsn,
    pub(crate) bytes: u64,
}

/// The content found at a segment header's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundHeader {
    Valid(SegmentHeader),
    /// All zero: prepared and never used.
    Unused,
    /// A header of another format.
    Other(u32),
    /// Neither: torn or damaged.
    Invalid,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BLOCK as usize] {
        let mut block = [0; HEADER_BLOCK as usize];
        let mut fields = &mut block[..];
        fields.put_slice(MAGIC);
        fields.put_u32_le(LOG_VERSION);
        fields.put_u32_le(self.epoch.0);
        fields.put_u64_le(self.number);
        fields.put_u64_le(self.first.0);
        fields.put_u64_le(self.bytes);
        let crc = crc32c::crc32c(&block[..HEADER_FIELDS - 4]);
        (&mut block[HEADER_FIELDS - 4..]).put_u32_le(crc);
        block
    }

    pub(crate) fn decode(block: &[u8]) -> FoundHeader {
        let Some(block) = block.get(..HEADER_FIELDS) else {
            return FoundHeader::Invalid;
        };
        if block.iter().all(|&byte| byte == 0) {
            return FoundHeader::Unused;
        }
        let (mut fields, mut crc) = block.split_at(HEADER_FIELDS - 4);
        if crc.get_u32_le() != crc32c::crc32c(fields) || !fields.starts_with(MAGIC) {
            return FoundHeader::Invalid;
        }
        fields.advance(MAGIC.len());
        let version = fields.get_u32_le();
        if version != LOG_VERSION {
            return FoundHeader::Other(version);
        }
        FoundHeader::Valid(Self {
            epoch: Epoch(fields.get_u32_le()),
            number: fields.get_u64_le(),
            first: Lsn(fields.get_u64_le()),
            bytes: fields.get_u64_le(),
        })
    }
}

/// Recomputes the checksum of a segment's header.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal_header(bytes: &mut [u8]) {
    crate::fuzzing::put_crc(bytes, HEADER_FIELDS - 4, 0..HEADER_FIELDS - 4);
}

/// The name of segment `number` in the log's directory.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:016x}.seg")
}

/// The number of a segment from its name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

const _: () = assert!(MIN_SEGMENT_BYTES > MAX_RECORD_PAYLOAD as u64 + 2 * HEADER_BLOCK + 4096);

/// An open segment file.
#[derive(Clone)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// Its size including the header block.
    pub(crate) bytes: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) path: PathBuf,
}

impl Segment {
    /// Bytes of records that fit.
    pub(crate) fn capacity(&self) -> u64 {
        self.bytes - HEADER_BLOCK
    }

    /// Prepares segment `number`: full length, header block zero, synced, name durable. With `recycle`, an old
    /// segment's file of `bytes` is renamed instead of writing a new one.
    pub(crate) fn prepare(
        disk: &dyn Disk,
        dir: &Path,
        number: u64,
        bytes: u64,
        recycle: Option<&Path>,
    ) -> Result<Self> {
        let path = dir.join(file_name(number));
        let doing = || format!("preparing the log segment {}", path.display());
        let failed = |error| Error::io(doing(), &error);
        let unsynced = |error| Error::sync(doing(), &error);
        let write = || {
            // Opened before anything is renamed, to detect a missing descriptor while nothing has changed.
            let names = disk.names(dir).map_err(failed)?;
            if let Some(old) = recycle {
                // Clear the header first: under its new name the file must not look like a used segment.
                let file = disk.open(old, OpenMode::Existing).map_err(failed)?;
                file.write_at(&[0; HEADER_BLOCK as usize], 0)
                    .map_err(failed)?;
                file.sync().map_err(unsynced)?;
                disk.rename(old, &path)
                    .map_err(|error| match Failure::of(&error) {
                        Failure::Full | Failure::Passing => failed(error),
                        // It is unknown which name it has now.
                        Failure::Lasting => unsynced(error),
                    })?;
                names().map_err(unsynced)?;
                return Ok(file);
            }
            let file = disk.open(&path, OpenMode::Create).map_err(failed)?;
            let zeros = vec![0; ZERO_CHUNK.min(bytes as usize)];
            let mut at = 0;
            while at < bytes {
                let n = zeros.len().min((bytes - at) as usize);
                file.write_at(&zeros[..n], at).map_err(failed)?;
                at += n as u64;
            }
            file.sync().map_err(unsynced)?;
            names().map_err(unsynced)?;
            Ok(file)
        };
        match write() {
            Ok(file) => Ok(Self {
                number,
                bytes,
                file,
                path,
            }),
            Err(error) => {
                // Free the space again, or a full disk stays full.
                if recycle.is_none() {
                    let _ = disk.remove(&path);
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_header_is_read_as_it_was_written() {
        let header = SegmentHeader {
            epoch: Epoch(4),
            number: 9,
            first: Lsn(u64::MAX - 7),
            bytes: 1 << 26,
        };
        assert_eq!(
            SegmentHeader::decode(&header.encode()),
            FoundHeader::Valid(header)
        );
        assert_eq!(SegmentHeader::decode(&[0; 64]), FoundHeader::Unused);
        for version in [0_u8, 2] {
            let mut other = header.encode();
            other[8] = version;
            let crc = crc32c::crc32c(&other[..44]);
            other[44..48].copy_from_slice(&crc.to_le_bytes());
            let found = FoundHeader::Other(version.into());
            assert_eq!(SegmentHeader::decode(&other), found);
            other[20] ^= 1;
            assert_eq!(SegmentHeader::decode(&other), FoundHeader::Invalid);
        }
    }

    #[test]
    fn segment_names_are_numbers() {
        assert_eq!(number_of(&file_name(0x1f)), Some(0x1f));
        assert_eq!(number_of("MANIFEST"), None);
    }
}
