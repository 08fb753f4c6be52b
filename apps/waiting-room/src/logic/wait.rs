//! What a visitor is told: how many people are ahead, and how long that takes.
//!
//! The estimate is meant to be too long rather than too short: visitors who enter earlier than they were told do not complain. What
//! filled the room says nothing about how fast it empties, so it goes by the departures.

use super::{bucket::BucketId, queue::Bucket};

/// How many are ahead of a visitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// In buckets that are older than the visitor's.
    pub older: u64,
    /// In the visitor's own bucket, the visitor included.
    pub own: u64,
}

impl Ahead {
    /// Counts who is ahead of a visitor of this bucket.
    pub fn of(buckets: &[Bucket], own: BucketId) -> Self {
        let sum = |wanted: &dyn Fn(BucketId) -> bool| {
            let counted = buckets.iter().filter(|bucket| wanted(bucket.id));
            counted.map(|bucket| bucket.waiting).sum()
        };
        Self {
            older: sum(&|id| id < own),
            own: sum(&|id| id == own),
        }
    }

    /// The people ahead: all in older buckets, and all others in the visitor's own.
    pub fn told(self) -> u64 {
        self.older + self.own.saturating_sub(1)
    }
}

/// How fast visitors enter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Free places in the room.
    pub free: u64,
    /// Visitors who may enter in one minute while places are free.
    pub most: f64,
    /// Visitors who leave in one minute.
    pub leave: f64,
}

impl Pace {
    /// Minutes until this many have entered; `None` if that is never.
    pub fn minutes(self, people: u64) -> Option<f64> {
        let at_once = people.min(self.free);
        let later = people - at_once;
        let first = minutes(at_once, self.most);
        if later == 0 {
            return first;
        }
        Some(first.unwrap_or(0.0) + minutes(later, self.most.min(self.leave))?)
    }
}

/// Minutes until this many have entered; `None` while no visitor enters.
pub fn minutes(people: u64, admissions_per_minute: f64) -> Option<f64> {
    (admissions_per_minute > 0.0).then(|| people as f64 / admissions_per_minute)
}

/// The average of minutes that are over.
pub fn average(counts: &[u64]) -> f64 {
    if counts.is_empty() {
        return 0.0;
    }
    counts.iter().sum::<u64>() as f64 / counts.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::minute::Minute;

    #[test]
    fn with_60_ahead_and_30_admissions_a_minute_the_wait_is_2_minutes() {
        assert_eq!(minutes(60, average(&[20, 40, 30])), Some(2.0));
        assert_eq!(minutes(60, average(&[])), None);
    }

    /// The example from which the numbers are has 52 in older buckets and 60 in the visitor's own, and says "60 ahead". Older buckets
    /// alone would be 52; we count both but the visitor, who may be the last of the bucket.
    #[test]
    fn the_others_of_the_own_bucket_count_as_ahead() {
        let bucket = |minute, waiting| Bucket {
            id: BucketId::first_of(Minute(minute)),
            waiting,
            eligible_slots: 0,
        };
        let queue = [bucket(954, 2), bucket(955, 50), bucket(956, 60)];
        let ahead = Ahead::of(&queue, BucketId::first_of(Minute(956)));
        assert_eq!((ahead.older, ahead.own, ahead.told()), (52, 60, 111));
        let wait = |people| minutes(people, 30.0).unwrap();
        assert!((wait(ahead.older) - 52.0 / 30.0).abs() < 1e-9, "1 min 44 s");
        assert!((wait(ahead.own) - 2.0).abs() < 1e-9, "2 min");
        assert!((wait(ahead.told()) - 3.7).abs() < 1e-9, "3 min 42 s");
    }

    #[test]
    fn the_first_in_a_queue_has_zero_ahead() {
        let first = Ahead { older: 0, own: 1 };
        assert_eq!(first.told(), 0);
        assert_eq!(Ahead::default().told(), 0);
    }

    #[test]
    fn a_full_room_admits_as_fast_as_visitors_leave() {
        let pace = |free, leave| Pace {
            free,
            most: 100.0,
            leave,
        };
        assert_eq!(pace(0, 10.0).minutes(60), Some(6.0));
        assert_eq!(pace(50, 10.0).minutes(60), Some(1.5));
        assert_eq!(pace(500, 0.0).minutes(60), Some(0.6));
        assert_eq!(pace(0, 500.0).minutes(60), Some(0.6));
        assert_eq!(pace(0, 0.0).minutes(60), None);
    }
}
