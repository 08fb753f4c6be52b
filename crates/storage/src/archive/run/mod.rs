//! A run: one immutable file of the archive. It holds the history of every object that was written in a range of the
//! log or, as a **base**, one snapshot of each object.
//!
//! ```text
//! header | blocks of entries, sorted by object and position | sections: index, filter, about, page maps | table of sections | footer
//! ```
//!
//! Header, 64 bytes: `abidearc`, version u32, level u32, run number u64, the log's range u64 and u64, zeros, CRC-32C of bytes
//! 0–59 at 60. Footer, 40 bytes: `abideidx`, position of the table of sections u64, number of objects u64, length of the file
//! u64, length of the table u32, CRC-32C of the bytes before u32.

mod reader;
mod writer;

use super::index::{INDEX_BLOCK_ENTRIES, INDEX_BLOCK_HEADER, INDEX_ENTRY};
use super::section::Section;
#[cfg(feature = "fuzzing")]
use super::{filter, page_map, section};
use crate::manifest::RunMeta;
#[cfg(feature = "fuzzing")]
use bytes::Buf;
use bytes::BufMut;
pub(crate) use reader::RunReader;
pub(crate) use writer::RunWriter;

/// The version of the format of runs.
pub(crate) const RUN_VERSION: u32 = 2;

const MAGIC: &[u8; 8] = b"abidearc";
const FOOTER_MAGIC: &[u8; 8] = b"abideidx";
const HEADER_BYTES: usize = 64;
const FOOTER_BYTES: usize = 40;
/// The section `about` begins with the CRC-32C of its text.
const ABOUT_CRC: usize = 4;
const INDEX_BLOCK: usize = INDEX_BLOCK_HEADER + INDEX_BLOCK_ENTRIES * INDEX_ENTRY;
/// Written at once.
const WRITE_BYTES: usize = 1 << 20;

impl RunMeta {
    fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let mut fields = &mut header[..];
        fields.put_slice(MAGIC);
        fields.put_u32_le(RUN_VERSION);
        fields.put_u32_le(self.level);
        fields.put_u64_le(self.number);
        fields.put_u64_le(self.from);
        fields.put_u64_le(self.to);
        let crc = crc32c::crc32c(&header[..HEADER_BYTES - 4]);
        (&mut header[HEADER_BYTES - 4..]).put_u32_le(crc);
        header
    }

    fn footer(&self, table: Section) -> [u8; FOOTER_BYTES] {
        let mut footer = [0; FOOTER_BYTES];
        let mut fields = &mut footer[..];
        fields.put_slice(FOOTER_MAGIC);
        fields.put_u64_le(table.at);
        fields.put_u64_le(self.objects);
        fields.put_u64_le(self.bytes);
        fields.put_u32_le(table.bytes as u32);
        let crc = crc32c::crc32c(&footer[..FOOTER_BYTES - 4]);
        (&mut footer[FOOTER_BYTES - 4..]).put_u32_le(crc);
        footer
    }
}

/// Recomputes every checksum of a run: header, footer, blocks, index.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(bytes: &mut [u8]) {
    let Some(footer) = bytes.len().checked_sub(FOOTER_BYTES) else {
        return;
    };
    crate::fuzzing::put_crc(bytes, HEADER_BYTES - 4, 0..HEADER_BYTES - 4);
    let crc_at = bytes.len() - 4;
    crate::fuzzing::put_crc(bytes, crc_at, footer..crc_at);
    let mut fields = &bytes[footer + 8..];
    let (table, _, _) = (
        fields.get_u64_le() as usize,
        fields.get_u64_le(),
        fields.get_u64_le(),
    );
    let table = table..table.saturating_add(fields.get_u32_le() as usize);
    let Some(listed) = bytes.get_mut(table) else {
        return;
    };
    section::seal(listed);
    let Some([index, filter, about, page_maps]) = section::decode(listed) else {
        return;
    };
    let range = |of: Section| of.at as usize..of.at.saturating_add(of.bytes) as usize;
    if let Some(blocks) = bytes.get_mut(..index.at as usize) {
        let mut at = HEADER_BYTES;
        while let Some(length) = blocks.get_mut(at..).and_then(super::block::seal) {
            at += length;
        }
    }
    for block in bytes
        .get_mut(range(index))
        .unwrap_or_default()
        .chunks_mut(INDEX_BLOCK)
    {
        super::index::seal(block);
    }
    filter::seal(bytes.get_mut(range(filter)).unwrap_or_default());
    page_map::seal(bytes.get_mut(range(page_maps)).unwrap_or_default());
    let about = bytes.get_mut(range(about)).unwrap_or_default();
    if about.len() >= ABOUT_CRC {
        let end = about.len();
        crate::fuzzing::put_crc(about, 0, ABOUT_CRC..end);
    }
}
