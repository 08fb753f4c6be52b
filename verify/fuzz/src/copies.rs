//! Arbitrary bytes as objects of a store with copies, and changes to encrypted ones: nothing panics, what is read is written as it
//! was, and no change of an encrypted object is taken for its content.

use abide_history::fuzzing::{decode_manifest, decode_piece, decrypt, decrypt_changed};

use crate::input::Input;

/// The most of an object's content: more than a block of an encrypted one.
const MOST: usize = 200_000;

/// The first byte of the input selects the kind of object.
pub fn target(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 4 {
        0 => decode_piece(bytes),
        1 => decode_manifest(bytes),
        2 => decrypt(bytes),
        _ => {
            let mut input = Input(bytes);
            let content = vec![input.byte(); input.number() % MOST];
            decrypt_changed(&content, |stored| change(&mut input, stored));
        }
    }
}

/// Changes an object as the rest of the input says.
fn change(input: &mut Input<'_>, stored: &mut Vec<u8>) {
    while !input.is_empty() {
        let kind = input.byte();
        let at = input.number() % (stored.len() + 1);
        match kind % 4 {
            0 => {
                let bytes = input.bytes();
                for (old, new) in stored[at..].iter_mut().zip(bytes) {
                    *old = *new;
                }
            }
            1 => stored.truncate(at),
            2 => {
                let rest = stored.split_off(at);
                stored.extend(input.bytes());
                stored.extend(rest);
            }
            _ => {
                // A part is left out: a whole block, perhaps.
                let end = (at + input.number()).min(stored.len());
                stored.drain(at..end);
            }
        }
    }
}
