//! A part of the durable log, as it is copied to another place: whole records, with the namespaces, because a class may be
//! newer than the copy of the manifest.
//!
//! Bytes, little-endian:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | `abidepar` |
//! | 8 | 4 | version |
//! | 12 | 4 | length of the namespaces |
//! | 16 | 8 | position of the first record |
//! | 24 | 8 | position after the last record |
//! | 32 | 4 | CRC-32C of bytes 0–31 and of the namespaces |
//! | 36 | | the unique keys of the namespaces: a JSON array, as in the manifest |
//! | | | the records, as in a segment; each has its own checksums |

use super::reader::is_torn;
use super::record::{HEADER_BYTES, Header};
use crate::error::{Error, Result};
use crate::ident::Lsn;
use bytes::{Buf, BufMut};

/// The version of the format of parts.
pub(crate) const PART_VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"abidepar";
const FIELDS: usize = 32;
const PART_HEADER: usize = FIELDS + 4;

/// No log is longer.
const LAST_PLACE: u64 = 1 << 62;

/// A part of the durable log: see [`Store::log_part`](crate::Store::log_part).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogPart {
    /// The position of its first record.
    pub first: Lsn,
    /// The position after its last record.
    pub end: Lsn,
    /// What [`restore_directory`](crate::restore_directory) reads from a file of the directory `tail`. The records are in
    /// it byte for byte; they are most of it.
    pub bytes: Vec<u8>,
}

/// What the bytes of a part hold. The records are not checked yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content<'a> {
    pub(crate) first: Lsn,
    pub(crate) end: Lsn,
    pub(crate) namespaces: Vec<String>,
    pub(crate) records: &'a [u8],
}

/// Why bytes are not those of a part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoPart {
    /// They have another format.
    Other(u32),
    Damaged,
}

/// The part with these records, of which `first` is the position.
pub(crate) fn encode(first: Lsn, records: &[u8], namespaces: &[String]) -> Result<LogPart> {
    let names = serde_json::to_vec(namespaces)
        .map_err(|error| Error::refused(format!("encoding the namespaces: {error}")))?;
    let end = first.advance(records.len());
    let mut bytes = Vec::with_capacity(PART_HEADER + names.len() + records.len());
    bytes.put_slice(MAGIC);
    bytes.put_u32_le(PART_VERSION);
    bytes.put_u32_le(names.len() as u32);
    bytes.put_u64_le(first.0);
    bytes.put_u64_le(end.0);
    let crc = checksum(&bytes, &names);
    bytes.put_u32_le(crc);
    bytes.put_slice(&names);
    bytes.put_slice(records);
    Ok(LogPart { first, end, bytes })
}

fn checksum(fields: &[u8], names: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(fields), names)
}

/// Reads the bytes of a part.
pub(crate) fn decode(bytes: &[u8]) -> Result<Content<'_>, NoPart> {
    let (header, rest) = bytes.split_at_checked(PART_HEADER).ok_or(NoPart::Damaged)?;
    let (fields, mut crc) = header.split_at(FIELDS);
    let mut left = fields.strip_prefix(MAGIC).ok_or(NoPart::Damaged)?;
    let version = left.get_u32_le();
    if version != PART_VERSION {
        return Err(NoPart::Other(version));
    }
    let length = left.get_u32_le() as usize;
    let (first, end) = (left.get_u64_le(), left.get_u64_le());
    let (names, records) = rest.split_at_checked(length).ok_or(NoPart::Damaged)?;
    let is_whole = crc.get_u32_le() == checksum(fields, names)
        && end <= LAST_PLACE
        && end.checked_sub(first) == Some(records.len() as u64);
    if !is_whole {
        return Err(NoPart::Damaged);
    }
    Ok(Content {
        first: Lsn(first),
        end: Lsn(end),
        namespaces: serde_json::from_slice(names).map_err(|_| NoPart::Damaged)?,
        records,
    })
}

/// The record at the beginning of `bytes`, which must be the one of this position, and whole.
pub(crate) fn record_at(bytes: &[u8], lsn: Lsn) -> Option<(Header, &[u8])> {
    let header = Header::read(bytes)?;
    let payload = bytes.get(HEADER_BYTES..header.length)?;
    (header.lsn == lsn && !is_torn(&header, payload)).then_some((header, payload))
}

/// Recomputes the checksum of a part, and those of its records.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(bytes: &mut [u8]) {
    let Some(length) = bytes.get(12..16).map(|mut length| length.get_u32_le()) else {
        return;
    };
    let names = PART_HEADER.saturating_add(length as usize);
    if bytes.len() < names {
        return;
    }
    let crc = checksum(&bytes[..FIELDS], &bytes[PART_HEADER..names]);
    (&mut bytes[FIELDS..]).put_u32_le(crc);
    let mut at = names;
    while let Some(length) = super::record::seal(bytes, at)
        && length > 0
    {
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part() -> LogPart {
        let names = ["a".to_owned(), String::new(), "ü\"".to_owned()];
        encode(Lsn(4096), &[7; 24], &names).unwrap()
    }

    #[test]
    fn a_part_is_read_as_it_was_written() {
        let part = part();
        assert_eq!((part.first, part.end), (Lsn(4096), Lsn(4120)));
        let content = decode(&part.bytes).unwrap();
        assert_eq!((content.first, content.end), (part.first, part.end));
        assert_eq!(content.namespaces, ["a", "", "ü\""]);
        assert_eq!(content.records, [7; 24]);
    }

    #[test]
    fn a_part_of_another_format_is_not_read() {
        let mut bytes = part().bytes;
        bytes[8] = 2;
        assert_eq!(decode(&bytes), Err(NoPart::Other(2)));
    }

    #[test]
    fn a_part_that_is_cut_off_or_has_a_changed_header_is_not_read() {
        let part = part().bytes;
        let names = part.len() - 24;
        for at in 0..part.len() {
            assert!(decode(&part[..at]).is_err(), "cut off at {at}");
        }
        for (at, bit) in (0..names).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut changed = part.clone();
            changed[at] ^= 1_u8 << bit;
            assert!(decode(&changed).is_err(), "bit {bit} of byte {at}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            let mut named = MAGIC.to_vec();
            named.extend(PART_VERSION.to_le_bytes());
            named.extend(&bytes);
            let _ = decode(&named);
        }
    }
}
