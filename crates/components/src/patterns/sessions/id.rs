//! Ids of sessions: secrets.

use abide::Env;
use sha2::{Digest as _, Sha256};

use crate::patterns::limits::SESSION_ID_BYTES;

/// A new one, as hex digits.
pub(super) fn generate(env: &Env) -> String {
    let mut bytes = [0; SESSION_ID_BYTES];
    env.fill_random(&mut bytes);
    hex::encode(bytes)
}

/// What is stored of one.
pub(super) fn digest(id: &str) -> Vec<u8> {
    Sha256::digest(id).to_vec()
}
