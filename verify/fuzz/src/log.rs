//! Arbitrary bytes as each of the formats on disk: nothing panics, and what is read is written as it was.

use abide_storage::fuzzing::decode;

/// The first byte of the input chooses the decoder.
pub fn target(bytes: &[u8]) {
    if let Some((decoder, bytes)) = bytes.split_first() {
        decode(usize::from(*decoder), bytes);
    }
}
