//! Which shard a key has: always the same, in every version of the program.

use sha2::{Digest as _, Sha256};

/// Jump consistent hashing (Lamping and Veach 2014) of the key's SHA-256: even, and with one more shard only the keys of
/// that one move.
#[allow(clippy::cast_sign_loss, reason = "the next shard is never negative")]
pub(super) fn shard_of(key: &str, shards: u32) -> u32 {
    let mut head = [0; 8];
    head.copy_from_slice(&Sha256::digest(key)[..8]);
    let mut state = u64::from_le_bytes(head);
    let (mut shard, mut next) = (0, 0.0);
    while next < f64::from(shards) {
        shard = next as u32;
        state = state
            .wrapping_mul(2_862_933_555_777_941_757)
            .wrapping_add(1);
        next = f64::from(shard + 1) * (2_147_483_648.0 / ((state >> 33) + 1) as f64);
    }
    shard
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> impl Iterator<Item = String> {
        (0..20_000).map(|number| format!("key {number}"))
    }

    #[test]
    fn the_shard_of_a_key_never_changes() {
        let shards = ["", "ada", "user 17"].map(|key| shard_of(key, 100));
        assert_eq!(shards, SHARDS);
    }

    /// Fixed forever: data are where these results say.
    const SHARDS: [u32; 3] = [78, 84, 1];

    #[test]
    fn keys_are_spread_evenly() {
        let mut counts = [0; 100];
        keys().for_each(|key| counts[shard_of(&key, 100) as usize] += 1);
        assert!(
            counts.iter().all(|count| (130..270).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn with_one_more_shard_only_its_own_keys_move() {
        let moved: Vec<u32> = keys()
            .filter(|key| shard_of(key, 10) != shard_of(key, 11))
            .map(|key| shard_of(&key, 11))
            .collect();
        assert!(moved.iter().all(|shard| *shard == 10));
        assert!((1_500..2_200).contains(&moved.len()), "{}", moved.len());
    }
}
