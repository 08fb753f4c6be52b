//! Entry points for the fuzzers. Not part of the public API: the feature `fuzzing` exposes them and changes nothing
//! else.
//!
//! [`decode`] passes arbitrary bytes to one decoder of the on-disk formats and panics if its contract is violated:
//! decoded data can be encoded, and decodes to the same again. [`seal`] recomputes the checksums of a modified file, so
//! that the modification gets past them.

use crate::alarms;
use crate::archive::block::{BLOCK_HEADER, BlockHeader, Packer};
use crate::archive::{self, entry, index};
use crate::delta::{self, Encoded};
use crate::ident::{Page, ZERO_PAGE};
use crate::limits::MAX_ARCHIVE_BLOCK_BYTES;
use crate::log::part;
use crate::log::record::{self, Header};
use crate::log::segment::{self, FoundHeader, SegmentHeader};
use crate::manifest::Manifest;
use bytes::BufMut;
use std::path::Path;

/// The decoders that [`decode`] knows.
pub const DECODERS: usize = 8;

/// Reads `bytes` with the decoder of this number (taken modulo the number of decoders) and checks the result.
pub fn decode(decoder: usize, bytes: &[u8]) {
    match decoder % DECODERS {
        0 => record_header(bytes),
        1 => page_entries(bytes),
        2 => segment_header(bytes),
        3 => manifest(bytes),
        4 => archive_entries(bytes),
        5 => archive_block(bytes),
        6 => archive_index(bytes),
        _ => log_part(bytes),
    }
}

/// Recomputes the checksums of a file of the data directory. A file without checksums stays unchanged.
pub fn seal(path: &Path, bytes: &mut Vec<u8>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let dir = path.parent().and_then(Path::file_name).unwrap_or_default();
    match (dir.to_str(), name.as_ref()) {
        (_, "MANIFEST") => Manifest::seal(bytes),
        (Some("log"), _) => seal_segment(bytes),
        (Some("alarms"), _) => alarms::seal_run(bytes),
        (Some("archive"), _) => archive::run::seal(bytes),
        (Some("tail"), _) => part::seal(bytes),
        _ => {}
    }
}

fn record_header(bytes: &[u8]) {
    let _ = record::lsn_field(bytes);
    let mut sealed = bytes.to_vec();
    record::seal(&mut sealed, 0);
    for bytes in [bytes, &sealed] {
        let Some(header) = Header::read(bytes) else {
            continue;
        };
        assert!(header.length >= record::HEADER_BYTES);
        assert!(header.length.is_multiple_of(record::ALIGN));
        let mut again = [0; record::HEADER_BYTES];
        header.write(&mut again);
        assert_eq!(Header::read(&again), Some(header));
    }
}

fn log_part(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    part::seal(&mut sealed);
    for bytes in [bytes, &sealed] {
        let Ok(content) = part::decode(bytes) else {
            continue;
        };
        let written = part::encode(content.first, content.records, &content.namespaces);
        let written = written.expect("names are text");
        assert_eq!(written.end, content.end);
        assert_eq!(part::decode(&written.bytes).ok().as_ref(), Some(&content));
        let (mut rest, mut at) = (content.records, content.first);
        while let Some((header, _)) = part::record_at(rest, at) {
            rest = &rest[header.length..];
            at = at.advance(header.length);
        }
        assert!(at <= content.end);
    }
}

fn page_entries(mut bytes: &[u8]) {
    let mut previous: Page = ZERO_PAGE;
    while let Some((entry, rest)) = delta::Entry::decode(bytes) {
        assert!(rest.len() < bytes.len());
        bytes = rest;
        let mut page = if entry.full { ZERO_PAGE } else { previous };
        entry.apply(&mut page);
        for base in [None, Some(&previous)] {
            let mut written = Vec::new();
            if delta::encode(&mut written, entry.page_no, &page, base) == Encoded::Unchanged {
                assert!(base == Some(&page) && written.is_empty());
                continue;
            }
            let (again, rest) = delta::Entry::decode(&written).expect("what was written");
            assert!(rest.is_empty() && again.page_no == entry.page_no);
            let mut image = base.filter(|_| !again.full).copied().unwrap_or(ZERO_PAGE);
            again.apply(&mut image);
            assert!(image == page, "another page came back");
        }
        previous = page;
    }
}

fn segment_header(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    segment::seal_header(&mut sealed);
    for bytes in [bytes, &sealed] {
        if let FoundHeader::Valid(header) = SegmentHeader::decode(bytes) {
            assert_eq!(
                SegmentHeader::decode(&header.encode()),
                FoundHeader::Valid(header)
            );
        }
        if let Some(number) = std::str::from_utf8(bytes).ok().and_then(segment::number_of) {
            assert_eq!(
                segment::number_of(&segment::file_name(number)),
                Some(number)
            );
        }
    }
}

fn manifest(bytes: &[u8]) {
    let path = Path::new("MANIFEST");
    let mut sealed = bytes.to_vec();
    Manifest::seal(&mut sealed);
    for bytes in [bytes, &sealed] {
        if let Ok(manifest) = Manifest::decode(bytes, path) {
            let written = manifest.encode().expect("a manifest is text");
            assert_eq!(Manifest::decode(&written, path).ok(), Some(manifest));
        }
    }
}

fn archive_entries(mut bytes: &[u8]) {
    while let Some((entry, length)) = entry::Entry::decode(bytes) {
        assert!(length >= entry::ENTRY_BYTES, "reading would not end");
        let mut written = Vec::new();
        entry.encode(&mut written);
        assert_eq!(written, &bytes[..length]);
        bytes = &bytes[length..];
    }
}

fn archive_block(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    crate::archive::block::seal(&mut sealed);
    for bytes in [bytes, &sealed] {
        let Some(header) = BlockHeader::decode(bytes) else {
            continue;
        };
        let stored = bytes[BLOCK_HEADER..].get(..header.stored);
        if let Some(raw) = stored.and_then(|stored| header.unpack(stored)) {
            assert!(raw.len() <= MAX_ARCHIVE_BLOCK_BYTES);
        }
    }
    if bytes.len() <= MAX_ARCHIVE_BLOCK_BYTES {
        let mut packed = Vec::new();
        let done = Packer::new(1).and_then(|mut packer| packer.pack(bytes, &mut packed));
        done.expect("a compressor");
        let header = BlockHeader::decode(&packed).expect("what was packed");
        assert_eq!(
            header.unpack(&packed[BLOCK_HEADER..]).as_deref(),
            Some(bytes)
        );
    }
}

fn archive_index(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    index::seal(&mut sealed);
    for bytes in [bytes, &sealed] {
        if let Some(entries) = index::decode_block(bytes) {
            let mut written = Vec::new();
            index::encode_block(&entries, &mut written);
            assert_eq!(index::decode_block(&written), Some(entries));
        }
    }
}

fn seal_segment(bytes: &mut [u8]) {
    segment::seal_header(bytes);
    let mut at = segment::HEADER_BLOCK as usize;
    while let Some(length) = record::seal(bytes, at) {
        at += length;
    }
}

/// Writes a checksum of `of` at `at`; nothing if the bytes end before.
pub(crate) fn put_crc(bytes: &mut [u8], at: usize, of: std::ops::Range<usize>) {
    let Some(crc) = bytes.get(of).map(crc32c::crc32c) else {
        return;
    };
    if let Some(mut field) = bytes.get_mut(at..at + 4) {
        field.put_u32_le(crc);
    }
}
