//! Which of the waiting visitors may enter: the oldest bucket first.

use serde::{Deserialize, Serialize};

use super::bucket::BucketId;

/// Visitors who wait in one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    pub id: BucketId,
    pub waiting: u64,
    /// How many of them may enter now.
    pub eligible_slots: u64,
}

impl Bucket {
    /// All its visitors may enter, wherever they are.
    pub fn is_whole(&self) -> bool {
        self.eligible_slots == self.waiting
    }
}

/// Gives slots to buckets that are sorted. Returns what is left for visitors who have just come.
pub fn give(buckets: &mut [Bucket], slots: i64) -> u64 {
    let mut left = u64::try_from(slots).unwrap_or(0);
    for bucket in buckets {
        bucket.eligible_slots = bucket.waiting.min(left);
        left -= bucket.eligible_slots;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::{history::Shares, minute::Minute};

    fn buckets(waiting: &[u64]) -> Vec<Bucket> {
        let buckets = (954..).zip(waiting).map(|(minute, waiting)| Bucket {
            id: BucketId::first_of(Minute(minute)),
            waiting: *waiting,
            eligible_slots: 0,
        });
        buckets.collect()
    }

    #[test]
    fn below_zero_slots_no_bucket_is_eligible() {
        let mut queue = buckets(&[2, 50, 60]);
        assert_eq!(give(&mut queue, -1), 0);
        assert!(queue.iter().all(|bucket| bucket.eligible_slots == 0));
    }

    #[test]
    fn of_52_slots_the_buckets_of_2_and_50_have_all_and_that_of_60_has_none() {
        let mut queue = buckets(&[2, 50, 60]);
        assert_eq!(give(&mut queue, 52), 0);
        let eligible: Vec<_> = queue.iter().map(|bucket| bucket.eligible_slots).collect();
        assert_eq!(eligible, [2, 50, 0]);
        assert!(queue[0].is_whole() && queue[1].is_whole() && !queue[2].is_whole());
    }

    #[test]
    fn a_partly_eligible_bucket_is_divided_by_shares() {
        let mut queue = buckets(&[60]);
        give(&mut queue, 20);
        assert!(!queue[0].is_whole());
        let shares = Shares::of([("a".to_owned(), 0.25), ("b".to_owned(), 0.75)]);
        let parts = shares.divide(queue[0].eligible_slots);
        assert_eq!((parts.own["a"], parts.own["b"], parts.anywhere), (5, 15, 0));
    }

    #[test]
    fn new_visitors_get_the_slots_that_the_queue_leaves() {
        let mut queue = buckets(&[2, 5]);
        assert_eq!(give(&mut queue, 10), 3);
        assert_eq!(give(&mut [], 10), 10);
    }
}
