//! Ids of sessions: secrets.

use std::fmt::Write as _;

use abide::Env;
use sha2::{Digest as _, Sha256};

use crate::patterns::limits::SESSION_ID_BYTES;

/// A new one, as hex digits.
pub(super) fn generate(env: &Env) -> String {
    let mut bytes = [0; SESSION_ID_BYTES];
    env.fill_random(&mut bytes);
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What is stored of one.
pub(super) fn digest(id: &str) -> Vec<u8> {
    Sha256::digest(id).to_vec()
}
