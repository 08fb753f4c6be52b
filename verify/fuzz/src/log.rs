//! Arbitrary bytes as each of the on-disk formats: nothing panics, and decoded data is encoded to the same bytes.

use abide_storage::fuzzing::decode;

/// The first byte of the input selects the decoder.
pub fn target(bytes: &[u8]) {
    if let Some((decoder, bytes)) = bytes.split_first() {
        decode(usize::from(*decoder), bytes);
    }
}
