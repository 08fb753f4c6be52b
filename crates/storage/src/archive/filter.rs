//! The filter of a run: it tells, in one read of 64 bytes, of most objects that they are not in the run.
//!
//! A Bloom filter of blocks, so that an object's bits are in one of them (Putze, Sanders and Singler, "Cache-, hash- and
//! space-efficient Bloom filters", 2007). A block is `CRC-32C of the bits: u32`, then 480 bits. A block is made for 48
//! objects, with seven bits for each: about 2 % of the absent objects are not recognised. Objects' ids are uniform in
//! their second half, so they are their own hash.

use crate::ident::ObjectKey;
use bytes::{Buf, BufMut};

/// Bytes of a block.
pub(crate) const FILTER_BLOCK: usize = 64;

const CRC_BYTES: usize = 4;
const BITS: u64 = 8 * (FILTER_BLOCK - CRC_BYTES) as u64;
const OBJECTS_PER_BLOCK: usize = 48;
/// Bits that each object sets, and the bits of its hash that choose one.
const PROBES: u32 = 7;
const PROBE_BITS: u32 = 9;

/// Appends the filter of these objects.
pub(crate) fn encode(keys: impl ExactSizeIterator<Item = ObjectKey>, out: &mut Vec<u8>) {
    let start = out.len();
    let blocks = keys.len().div_ceil(OBJECTS_PER_BLOCK).max(1);
    out.resize(start + blocks * FILTER_BLOCK, 0);
    let filter = &mut out[start..];
    for key in keys {
        let at = place(key, blocks as u64) as usize * FILTER_BLOCK + CRC_BYTES;
        for bit in bits(key) {
            filter[at + (bit / 8) as usize] |= 1 << (bit % 8);
        }
    }
    for block in filter.chunks_mut(FILTER_BLOCK) {
        let crc = crc32c::crc32c(&block[CRC_BYTES..]);
        (&mut block[..]).put_u32_le(crc);
    }
}

/// Which block to look at, of a filter with this many.
pub(crate) fn place(key: ObjectKey, blocks: u64) -> u64 {
    let [hash, _] = hashes(key);
    ((u128::from(hash) * u128::from(blocks)) >> u64::BITS) as u64
}

/// Returns whether the object may be in the run, by its block. `None` if the block is damaged.
pub(crate) fn may_contain(block: &[u8; FILTER_BLOCK], key: ObjectKey) -> Option<bool> {
    let set = &block[CRC_BYTES..];
    let is_set = |bit: u64| set[(bit / 8) as usize] & 1 << (bit % 8) != 0;
    is_whole(block).then(|| bits(key).all(is_set))
}

/// Returns whether a block is undamaged.
pub(crate) fn is_whole(block: &[u8; FILTER_BLOCK]) -> bool {
    let (mut crc, set) = block.split_at(CRC_BYTES);
    crc.get_u32_le() == crc32c::crc32c(set)
}

fn bits(key: ObjectKey) -> impl Iterator<Item = u64> {
    let [_, hash] = hashes(key);
    let chosen = move |probe| hash >> (probe * PROBE_BITS) & ((1 << PROBE_BITS) - 1);
    (0..PROBES).map(move |probe| (chosen(probe) * BITS) >> PROBE_BITS)
}

fn hashes(key: ObjectKey) -> [u64; 2] {
    let mut half = &key.id[16..];
    let (first, second) = (half.get_u64_le(), half.get_u64_le());
    // Two classes may have an object of the same id only in tests; they still should not share all bits.
    [first ^ u64::from(key.namespace.0), second]
}

/// Recomputes the checksums of a filter.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(filter: &mut [u8]) {
    for block in filter.chunks_exact_mut(FILTER_BLOCK) {
        crate::fuzzing::put_crc(block, 0, CRC_BYTES..FILTER_BLOCK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::NamespaceNo;
    use crate::random::SplitMix64;

    fn keys(seed: u64, count: usize) -> Vec<ObjectKey> {
        let mut random = SplitMix64::new(seed);
        let mut key = || {
            let mut id = [0; 32];
            id.as_chunks_mut()
                .0
                .fill_with(|| random.draw().to_le_bytes());
            ObjectKey {
                namespace: NamespaceNo(1),
                id,
            }
        };
        (0..count).map(|_| key()).collect()
    }

    fn answers(filter: &[u8], key: ObjectKey) -> bool {
        let (blocks, rest) = filter.as_chunks::<FILTER_BLOCK>();
        assert!(rest.is_empty());
        let block = place(key, blocks.len() as u64) as usize;
        may_contain(&blocks[block], key).unwrap()
    }

    #[test]
    fn it_knows_all_its_objects_and_few_others() {
        for count in [0, 1, 47, 48, 49, 5_000] {
            let mut filter = vec![];
            let known = keys(1, count);
            encode(known.iter().copied(), &mut filter);
            assert!(known.iter().all(|key| answers(&filter, *key)));
            let others = keys(2, 20_000).into_iter();
            let mistaken = others.filter(|key| answers(&filter, *key)).count();
            assert!(mistaken < 800, "{mistaken} of 20,000 beside {count}");
        }
    }

    #[test]
    fn a_changed_bit_is_seen() {
        let mut filter = vec![];
        let key = keys(1, 1)[0];
        encode([key].into_iter(), &mut filter);
        for at in 0..FILTER_BLOCK {
            filter[at] ^= 8;
            let block = filter.first_chunk().unwrap();
            assert_eq!(may_contain(block, key), None, "byte {at}");
            filter[at] ^= 8;
        }
    }
}
