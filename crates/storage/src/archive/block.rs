//! Compressed blocks of a run: `stored length: u32, raw length: u32, CRC-32C of the preceding eight bytes and of the
//! stored bytes: u32`, then a zstd frame (RFC 8878).

use crate::limits::MAX_ARCHIVE_BLOCK_BYTES;
use bytes::{Buf, BufMut};

/// Bytes before the frame.
pub(crate) const BLOCK_HEADER: usize = 12;

/// Compresses blocks, reusing the compressor's tables.
pub(crate) struct Packer(zstd::bulk::Compressor<'static>);

impl Packer {
    pub(crate) fn new(level: i32) -> std::io::Result<Self> {
        zstd::bulk::Compressor::new(level).map(Self)
    }

    /// Appends `raw` to `out` as one block.
    pub(crate) fn pack(&mut self, raw: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        let stored = self.0.compress(raw)?;
        let start = out.len();
        out.put_u32_le(stored.len() as u32);
        out.put_u32_le(raw.len() as u32);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&out[start..]), &stored);
        out.put_u32_le(crc);
        out.put_slice(&stored);
        Ok(())
    }
}

/// The fields of a block header.
#[derive(Clone, Copy)]
pub(crate) struct BlockHeader {
    pub(crate) stored: usize,
    raw: usize,
    crc: u32,
    lengths_crc: u32,
}

impl BlockHeader {
    /// `None` if the bytes are not a block header.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = bytes.get(..BLOCK_HEADER)?;
        let lengths_crc = crc32c::crc32c(&fields[..8]);
        let header = Self {
            stored: fields.get_u32_le() as usize,
            raw: fields.get_u32_le() as usize,
            crc: fields.get_u32_le(),
            lengths_crc,
        };
        let bound = zstd::zstd_safe::compress_bound(MAX_ARCHIVE_BLOCK_BYTES);
        (header.raw <= MAX_ARCHIVE_BLOCK_BYTES && header.stored <= bound).then_some(header)
    }

    /// Decompresses the entries of a block from its stored bytes. `None` if they are damaged.
    pub(crate) fn unpack(&self, stored: &[u8]) -> Option<Vec<u8>> {
        if crc32c::crc32c_append(self.lengths_crc, stored) != self.crc {
            return None;
        }
        let raw = zstd::bulk::decompress(stored, self.raw).ok()?;
        (raw.len() == self.raw).then_some(raw)
    }
}

/// Recomputes the checksum of the block at the beginning of `bytes`, and returns its length if it is complete.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(bytes: &mut [u8]) -> Option<usize> {
    let header = BlockHeader::decode(bytes)?;
    let length = BLOCK_HEADER + header.stored;
    let stored = bytes.get(BLOCK_HEADER..length)?;
    let crc = crc32c::crc32c_append(header.lengths_crc, stored);
    (&mut bytes[8..]).put_u32_le(crc);
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_unpacked_as_it_was_packed_and_any_changed_bit_is_seen() {
        let raw: Vec<u8> = (0..5000_u32).map(|i| (i / 7 % 251) as u8).collect();
        let mut bytes = Vec::new();
        Packer::new(1).unwrap().pack(&raw, &mut bytes).unwrap();
        let read = |bytes: &[u8]| {
            let header = BlockHeader::decode(bytes)?;
            header.unpack(bytes.get(BLOCK_HEADER..)?)
        };
        assert_eq!(read(&bytes), Some(raw));
        for at in 0..bytes.len() {
            bytes[at] ^= 4;
            assert_eq!(read(&bytes), None, "byte {at}");
            bytes[at] ^= 4;
        }
    }
}
