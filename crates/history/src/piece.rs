//! A piece of the tail: an object with a header, and bytes of the log.
//!
//! Bytes, little-endian:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | `abidtail` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | kind: 1 begins a session, 2 has a part of the log |
//! | 16 | 8 | its own number |
//! | 24 | 8 | the writer |
//! | 32 | 16 | the session |
//! | 48 | 8 | the newest manifest that the session knew; 0 if none |
//! | 56 | 8 | the position of the part's first byte |
//! | 64 | 8 | the position after its last byte |
//! | 72 | 4 | CRC-32C of what follows the header |
//! | 76 | 4 | CRC-32C of the header up to here |

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::{Error, Session, Writer, key, source::Part};

/// Bytes of a header. A piece that only begins a session has no more, and others have.
pub(crate) const HEADER_BYTES: usize = 80;

const MAGIC: &[u8; 8] = b"abidtail";
const VERSION: u32 = 1;
const BEGINS: u32 = 1;
const HAS_PART: u32 = 2;

/// A piece, without its part's bytes in the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub number: u64,
    pub writer: Writer,
    pub session: Session,
    /// The number of the newest manifest that its session knew.
    pub manifest: u64,
    /// `None` if it only begins a session.
    pub part: Option<Part>,
}

impl Piece {
    pub(crate) fn encode(&self) -> Bytes {
        let payload = self.part.as_ref().map_or(&[][..], |part| &part.bytes);
        let mut out = BytesMut::with_capacity(HEADER_BYTES + payload.len());
        out.put_slice(MAGIC);
        out.put_u32_le(VERSION);
        out.put_u32_le(if self.part.is_some() {
            HAS_PART
        } else {
            BEGINS
        });
        out.put_u64_le(self.number);
        out.put_slice(&self.writer.to_bytes());
        out.put_slice(&self.session.to_bytes());
        out.put_u64_le(self.manifest);
        out.put_u64_le(self.part.as_ref().map_or(0, |part| part.first));
        out.put_u64_le(self.part.as_ref().map_or(0, |part| part.end));
        out.put_u32_le(crc32c::crc32c(payload));
        let crc = crc32c::crc32c(&out);
        out.put_u32_le(crc);
        out.put_slice(payload);
        out.freeze()
    }

    /// Reads the piece of a number.
    pub(crate) fn decode(number: u64, bytes: &Bytes) -> Result<Self, Error> {
        let damaged = |how: &str| Error::damaged(key::piece(number), how);
        let mut fields = bytes
            .get(..HEADER_BYTES)
            .ok_or_else(|| damaged("it is too short"))?;
        let crc = crc32c::crc32c(&fields[..HEADER_BYTES - 4]);
        if !fields.starts_with(MAGIC) {
            return Err(damaged("it does not begin as a piece"));
        }
        fields.advance(MAGIC.len());
        let version = fields.get_u32_le();
        let kind = fields.get_u32_le();
        let own_number = fields.get_u64_le();
        let writer = Writer::from_bytes(fields.get_u64_le().to_le_bytes());
        let session = Session::from_bytes(fields.get_u128_le().to_le_bytes());
        let manifest = fields.get_u64_le();
        let (first, end) = (fields.get_u64_le(), fields.get_u64_le());
        let payload_crc = fields.get_u32_le();
        if fields.get_u32_le() != crc {
            return Err(damaged("its checksum is wrong"));
        }
        if version != VERSION {
            return Err(damaged(&format!("it has the unknown version {version}")));
        }
        if own_number != number {
            return Err(damaged(&format!("it is piece {own_number}")));
        }
        let payload = bytes.slice(HEADER_BYTES..);
        if crc32c::crc32c(&payload) != payload_crc {
            return Err(damaged("the checksum of its part is wrong"));
        }
        let part = match kind {
            BEGINS if payload.is_empty() => None,
            HAS_PART if first < end => Some(Part {
                first,
                end,
                bytes: payload,
            }),
            _ => return Err(damaged("its header contradicts itself")),
        };
        Ok(Self {
            number,
            writer,
            session,
            manifest,
            part,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> [Piece; 2] {
        let begins = Piece {
            number: 7,
            writer: "00000000000000ab".parse().unwrap(),
            session: "000000000000000000000000000000cd".parse().unwrap(),
            manifest: 3,
            part: None,
        };
        let part = Part {
            first: 1000,
            end: 1008,
            bytes: Bytes::from_static(b"records"),
        };
        let with_part = Piece {
            part: Some(part),
            ..begins.clone()
        };
        [begins, with_part]
    }

    #[test]
    fn a_piece_is_read_as_it_was_written() {
        for piece in pieces() {
            let bytes = piece.encode();
            assert_eq!(Piece::decode(7, &bytes).unwrap(), piece);
            let error = Piece::decode(8, &bytes).unwrap_err().to_string();
            assert!(error.contains("it is piece 7"), "{error}");
        }
    }

    #[test]
    fn any_flipped_bit_of_a_piece_is_found() {
        for piece in pieces() {
            let bytes = piece.encode();
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(Piece::decode(7, &flipped.into()).is_err(), "bit {bit}");
            }
            for length in 0..bytes.len() {
                assert!(Piece::decode(7, &bytes.slice(..length)).is_err());
            }
        }
    }
}
