//! Which session should claim a shard without an owner.
//!
//! All sessions compute the same answer from the same view, so most shards are claimed by one session only. When views differ, the
//! statement decides.

use crate::{SessionId, Shard};

/// The session, among the live ones, whose share a shard is: the one with the highest hash of both (rendezvous hashing; Thaler and
/// Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996). When a session ends, only its own shards move, and they are
/// divided among all others.
pub fn of(shard: Shard, live: impl IntoIterator<Item = SessionId>) -> Option<SessionId> {
    live.into_iter()
        .max_by_key(|session| (weight(shard, *session), *session))
}

/// A hash that is the same in every process and release.
fn weight(shard: Shard, session: SessionId) -> u64 {
    let high = (session.nonce >> 64) as u64;
    let low = session.nonce as u64;
    let words = [u64::from(shard.0), session.number, high, low];
    words.into_iter().fold(0, |hash, word| mix(hash ^ word))
}

/// One step of `SplitMix64` (Steele, Lea and Flood, 2014).
fn mix(seed: u64) -> u64 {
    let mut word = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SHARDS;

    fn sessions(count: u64) -> Vec<SessionId> {
        let session = |number| SessionId {
            number,
            nonce: u128::from(number) << 70 | 5,
        };
        (1..=count).map(session).collect()
    }

    #[test]
    fn shares_are_of_similar_size() {
        for count in 1..=8 {
            let all = sessions(count);
            let fair = u64::from(SHARDS) / count;
            for session in &all {
                let shards = (0..SHARDS).map(Shard);
                let own = shards.filter(|shard| of(*shard, all.iter().copied()) == Some(*session));
                let own = own.count() as u64;
                assert!(own > fair / 2 && own < fair * 2, "{own} of {fair}");
            }
        }
    }

    #[test]
    fn only_the_shards_of_a_lost_session_move() {
        let all = sessions(5);
        let (lost, others) = all.split_first().unwrap();
        for shard in (0..SHARDS).map(Shard) {
            let before = of(shard, all.iter().copied());
            let after = of(shard, others.iter().copied());
            assert!(before == after || before == Some(*lost));
        }
    }

    #[test]
    fn without_sessions_a_shard_is_no_share() {
        assert_eq!(of(Shard(3), []), None);
    }
}
