//! How an object is encrypted.
//!
//! A header, and then blocks of 64 KiB of the content, of which only the last is shorter. An empty object has one empty block. Bytes,
//! little-endian:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | `abidciph` |
//! | 8 | 4 | version, 1 |
//! | 12 | 8 | which key: the beginning of the SHA-256 of `abide copy key` and the key |
//! | 20 | 16 | random, for this object alone |
//!
//! A block is its nonce of 24 random bytes, the encrypted content, and a tag of 16 bytes, by XChaCha20-Poly1305. Its associated data
//! are the header, the block's number as 8 bytes, a byte that is 1 for the last block and otherwise 0, and the object's name in the
//! store. So a block is refused anywhere else than where it was written: in another object, in another attempt to create this one, at
//! another number, or as the end of a shorter object.
//!
//! Why this cipher: nonces of 192 bits may be random, for any number of blocks of one key, so a machine that is restored, set back or
//! cloned repeats none. The 96 bits of AES-GCM and ChaCha20-Poly1305 suffice for 2³² blocks of a key, and would need another key for
//! each object. It needs no special instructions of the processor to be fast and to take the same time for every key.

use std::ops::Range;

use bytes::Bytes;
use chacha20poly1305::{Tag, XNonce, aead::AeadInOut as _};

use crate::{CopyKey, Error, copy_key::KeyId, machine};

const MAGIC: &[u8; 8] = b"abidciph";
const VERSION: u32 = 1;

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 36;

/// Bytes of the content in a block.
const BLOCK_BYTES: usize = 64 << 10;

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// What a block has beside its content.
const EXTRA_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// A whole block in the store.
const STORED_BLOCK_BYTES: usize = BLOCK_BYTES + EXTRA_BYTES;

/// Why an object cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It does not begin as an encrypted one.
    NotEncrypted,
    OtherVersion(u32),
    OtherKey(KeyId),
    /// It is too short.
    CutOff,
    /// A block is not what was written there.
    Block(u64),
}

/// A header that fits the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header([u8; HEADER_BYTES]);

/// True if an object begins as an encrypted one.
pub(crate) fn is_encrypted(stored: &[u8]) -> bool {
    let version = stored.strip_prefix(MAGIC);
    version.is_some_and(|rest| rest.starts_with(&VERSION.to_le_bytes()))
}

/// The length of an object's content, from its length in the store.
pub(crate) fn content_length(stored: u64) -> Option<u64> {
    let blocks = stored.checked_sub(HEADER_BYTES as u64)?;
    let count = blocks.div_ceil(STORED_BLOCK_BYTES as u64).max(1);
    let content = blocks.checked_sub(count * EXTRA_BYTES as u64)?;
    // Only an empty object has an empty block.
    (block_count(content) == count).then_some(content)
}

fn block_count(content: u64) -> u64 {
    content.div_ceil(BLOCK_BYTES as u64).max(1)
}

/// The block that a byte of the content is in.
pub(crate) fn block_of(position: u64) -> u64 {
    position / BLOCK_BYTES as u64
}

/// Where a block begins in the content.
pub(crate) fn beginning_of(block: u64) -> u64 {
    block * BLOCK_BYTES as u64
}

/// Where in the store the blocks are that have a part of the content.
pub(crate) fn stored_range(content: &Range<u64>) -> Range<u64> {
    let first = block_of(content.start);
    let end = content.end.div_ceil(BLOCK_BYTES as u64).max(first + 1);
    let place = |block: u64| HEADER_BYTES as u64 + block * STORED_BLOCK_BYTES as u64;
    place(first)..place(end)
}

/// What a block is bound to.
fn bound(header: &[u8], number: u64, is_last: bool, object: &str) -> Vec<u8> {
    let mut bound = Vec::with_capacity(header.len() + 9 + object.len());
    bound.extend_from_slice(header);
    bound.extend_from_slice(&number.to_le_bytes());
    bound.push(u8::from(is_last));
    bound.extend_from_slice(object.as_bytes());
    bound
}

/// Encrypts an object of a name.
///
/// # Errors
/// If there are no random numbers.
pub(crate) fn encrypt(key: &CopyKey, object: &str, content: &[u8]) -> Result<Bytes, Error> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&key.id.0);
    header.extend_from_slice(&machine::real().random::<16>()?);
    let count = block_count(content.len() as u64);
    let extra = count as usize * EXTRA_BYTES;
    let mut stored = Vec::with_capacity(HEADER_BYTES + extra + content.len());
    stored.extend_from_slice(&header);
    let mut rest = content;
    for number in 0..count {
        let (block, after) = rest.split_at(rest.len().min(BLOCK_BYTES));
        rest = after;
        let nonce: [u8; NONCE_BYTES] = machine::real().random()?;
        stored.extend_from_slice(&nonce);
        let begin = stored.len();
        stored.extend_from_slice(block);
        let bound = bound(&header, number, rest.is_empty(), object);
        let sealed = key.aead.encrypt_inout_detached(
            &XNonce::from(nonce),
            &bound,
            (&mut stored[begin..]).into(),
        );
        let tag = sealed
            .map_err(|error| Error::store(format!("encrypting {object}"), error.to_string()))?;
        stored.extend_from_slice(&tag);
    }
    Ok(stored.into())
}

/// Decrypts a whole object.
pub(crate) fn decrypt(key: &CopyKey, object: &str, stored: &[u8]) -> Result<Bytes, Unreadable> {
    let header = Header::read(key, stored)?;
    let blocks = &stored[HEADER_BYTES..];
    header.decrypt(key, object, stored.len() as u64, 0, blocks)
}

impl Header {
    /// The header with which an object begins.
    pub(crate) fn read(key: &CopyKey, stored: &[u8]) -> Result<Self, Unreadable> {
        if !stored.starts_with(MAGIC) {
            return Err(Unreadable::NotEncrypted);
        }
        let header = stored.first_chunk::<HEADER_BYTES>();
        let header = *header.ok_or(Unreadable::CutOff)?;
        let [_, _, _, _, _, _, _, _, v0, v1, v2, v3, ..] = header;
        let version = u32::from_le_bytes([v0, v1, v2, v3]);
        if version != VERSION {
            return Err(Unreadable::OtherVersion(version));
        }
        let mut id = [0; 8];
        id.copy_from_slice(&header[12..20]);
        if key.id.0 != id {
            return Err(Unreadable::OtherKey(KeyId(id)));
        }
        Ok(Self(header))
    }

    /// Decrypts some blocks of an object, from one on. `length` is that of the whole object in the store.
    pub(crate) fn decrypt(
        &self,
        key: &CopyKey,
        object: &str,
        length: u64,
        first: u64,
        blocks: &[u8],
    ) -> Result<Bytes, Unreadable> {
        let length = content_length(length).ok_or(Unreadable::CutOff)?;
        let count = block_count(length);
        let mut content = Vec::with_capacity(blocks.len());
        for (number, block) in (first..).zip(blocks.chunks(STORED_BLOCK_BYTES)) {
            let wrong = Unreadable::Block(number);
            let (nonce, sealed) = block.split_first_chunk::<NONCE_BYTES>().ok_or(wrong)?;
            let (sealed, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or(wrong)?;
            let begin = content.len();
            content.extend_from_slice(sealed);
            let bound = bound(&self.0, number, number + 1 == count, object);
            let opened = key.aead.decrypt_inout_detached(
                &XNonce::from(*nonce),
                &bound,
                (&mut content[begin..]).into(),
                &Tag::from(*tag),
            );
            opened.map_err(|_| wrong)?;
        }
        Ok(content.into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NAME: &str = "runs/a";

    fn key() -> CopyKey {
        CopyKey::new(&[7; 32])
    }

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 7 % 251) as u8).collect()
    }

    /// An object's header and blocks.
    fn pieces(stored: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let (header, blocks) = stored.split_at(HEADER_BYTES);
        let blocks = blocks.chunks(STORED_BLOCK_BYTES).map(<[u8]>::to_vec);
        (header.to_vec(), blocks.collect())
    }

    fn joined(header: &[u8], blocks: &[&Vec<u8>]) -> Vec<u8> {
        let mut stored = header.to_vec();
        stored.extend(blocks.iter().flat_map(|block| block.iter()));
        stored
    }

    #[test]
    fn objects_of_all_lengths_are_read_as_they_were_written() {
        let block = BLOCK_BYTES;
        for length in [
            0,
            1,
            80,
            block - 1,
            block,
            block + 1,
            2 * block,
            3 * block + 9,
        ] {
            let written = content(length);
            let stored = encrypt(&key(), NAME, &written).unwrap();
            assert_eq!(decrypt(&key(), NAME, &stored).unwrap(), written);
            assert!(is_encrypted(&stored));
            assert_eq!(content_length(stored.len() as u64), Some(length as u64));
            let again = encrypt(&key(), NAME, &written).unwrap();
            assert_ne!(stored, again, "two attempts differ");
        }
        assert!(!is_encrypted(b"abidciph"));
    }

    #[test]
    fn each_length_in_the_store_has_one_content() {
        let mut lengths = BTreeSet::new();
        for stored in 0..2 * STORED_BLOCK_BYTES as u64 + 100 {
            if let Some(length) = content_length(stored) {
                assert!(lengths.insert(length), "{length}");
            }
        }
        let most = lengths.last().unwrap() + 1;
        assert_eq!(lengths.len() as u64, most, "none is left out");
    }

    #[test]
    fn any_flipped_byte_and_any_cut_is_found() {
        for length in [0, 100] {
            let stored = encrypt(&key(), NAME, &content(length)).unwrap();
            for offset in 0..stored.len() {
                let mut flipped = stored.to_vec();
                flipped[offset] ^= 1;
                assert!(decrypt(&key(), NAME, &flipped).is_err(), "byte {offset}");
                assert!(decrypt(&key(), NAME, &stored[..offset]).is_err());
            }
            let longer = [&stored[..], &[0]].concat();
            assert!(decrypt(&key(), NAME, &longer).is_err());
        }
    }

    #[test]
    fn a_block_is_refused_at_another_number() {
        let stored = encrypt(&key(), NAME, &content(4 * BLOCK_BYTES)).unwrap();
        let (header, blocks) = pieces(&stored);
        let [a, b, c, d] = &blocks[..] else { panic!() };
        assert!(decrypt(&key(), NAME, &joined(&header, &[a, b, c, d])).is_ok());
        for moved in [[b, a, c, d], [a, c, b, d], [a, a, c, d], [a, b, b, d]] {
            let moved = joined(&header, &moved);
            assert!(decrypt(&key(), NAME, &moved).is_err());
        }
        // One left out, at the beginning and within.
        for moved in [[b, c, d], [a, c, d], [a, b, d]] {
            assert!(decrypt(&key(), NAME, &joined(&header, &moved)).is_err());
        }
    }

    #[test]
    fn an_object_that_is_cut_off_between_blocks_is_refused() {
        let stored = encrypt(&key(), NAME, &content(3 * BLOCK_BYTES)).unwrap();
        let (header, blocks) = pieces(&stored);
        for count in 1..3 {
            let kept: Vec<_> = blocks.iter().take(count).collect();
            let cut = joined(&header, &kept);
            let refused = decrypt(&key(), NAME, &cut).unwrap_err();
            assert_eq!(refused, Unreadable::Block(count as u64 - 1));
        }
        let refused = decrypt(&key(), NAME, &header).unwrap_err();
        assert_eq!(refused, Unreadable::CutOff);
        // Nor is one continued after its end.
        let [a, b, c] = &blocks[..] else { panic!() };
        let continued = joined(&header, &[a, b, c, c]);
        assert_eq!(
            decrypt(&key(), NAME, &continued).unwrap_err(),
            Unreadable::Block(2)
        );
    }

    #[test]
    fn an_object_is_refused_under_another_name() {
        let stored = encrypt(&key(), "tail/1", b"content").unwrap();
        assert_eq!(
            decrypt(&key(), "tail/2", &stored).unwrap_err(),
            Unreadable::Block(0)
        );
    }

    #[test]
    fn blocks_of_two_attempts_are_not_mixed() {
        let attempt = || encrypt(&key(), NAME, &content(2 * BLOCK_BYTES)).unwrap();
        let (first, blocks) = pieces(&attempt());
        let (second, others) = pieces(&attempt());
        let mixed = joined(&first, &[&blocks[0], &others[1]]);
        assert!(decrypt(&key(), NAME, &mixed).is_err());
        let mixed = joined(&second, &[&blocks[0], &blocks[1]]);
        assert!(decrypt(&key(), NAME, &mixed).is_err());
    }

    #[test]
    fn no_nonce_comes_twice() {
        let mut nonces = BTreeSet::new();
        for _ in 0..20 {
            let stored = encrypt(&key(), NAME, &content(3 * BLOCK_BYTES)).unwrap();
            for block in pieces(&stored).1 {
                assert!(nonces.insert(block[..NONCE_BYTES].to_vec()));
            }
        }
    }

    #[test]
    fn another_key_and_an_object_without_one_are_named() {
        let stored = encrypt(&key(), NAME, b"content").unwrap();
        let other = CopyKey::new(&[8; 32]);
        let refused = decrypt(&other, NAME, &stored).unwrap_err();
        assert_eq!(refused, Unreadable::OtherKey(key().id));
        let refused = decrypt(&key(), NAME, b"{\"version\":1}").unwrap_err();
        assert_eq!(refused, Unreadable::NotEncrypted);
        // A header that was changed to name the reader's key is not believed.
        let mut claimed = stored.to_vec();
        claimed[12..20].copy_from_slice(&other.id.0);
        let refused = decrypt(&other, NAME, &claimed).unwrap_err();
        assert_eq!(refused, Unreadable::Block(0));
    }
}
