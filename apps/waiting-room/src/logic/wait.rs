//! What a visitor is told: how many are ahead, and how long that takes.
//!
//! A visitor's own bucket counts as ahead. Inside a bucket nobody knows their place, and a wait that turns out to be shorter disappoints
//! nobody.

use super::{minute::Minute, queue::Bucket};

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
    pub fn of(buckets: &[Bucket], own: Minute) -> Self {
        let sum = |wanted: &dyn Fn(Minute) -> bool| {
            let counted = buckets.iter().filter(|bucket| wanted(bucket.minute));
            counted.map(|bucket| bucket.waiting).sum()
        };
        Self {
            older: sum(&|minute| minute < own),
            own: sum(&|minute| minute == own),
        }
    }

    /// What the visitor is told: nobody who waits is the first of nobody.
    pub fn told(self) -> u64 {
        (self.older + self.own).max(1)
    }
}

/// Minutes until so many have entered; `None` while nobody enters.
pub fn minutes(ahead: u64, admissions_per_minute: f64) -> Option<f64> {
    (admissions_per_minute > 0.0).then(|| ahead as f64 / admissions_per_minute)
}

/// The average of admissions in minutes that are over.
pub fn average(admitted: &[u64]) -> f64 {
    if admitted.is_empty() {
        return 0.0;
    }
    admitted.iter().sum::<u64>() as f64 / admitted.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_60_ahead_and_30_admissions_a_minute_the_wait_is_2_minutes() {
        assert_eq!(minutes(60, average(&[20, 40, 30])), Some(2.0));
        assert_eq!(minutes(60, average(&[])), None);
    }

    /// The example from which the numbers are has 52 in older buckets and 60 in the visitor's own, and says "60 ahead". Older buckets
    /// alone would be 52; we count both, because the visitor may be the last of the bucket.
    #[test]
    fn the_own_bucket_counts_as_ahead() {
        let bucket = |minute, waiting| Bucket {
            minute: Minute(minute),
            waiting,
            eligible_slots: 0,
        };
        let queue = [bucket(954, 2), bucket(955, 50), bucket(956, 60)];
        let ahead = Ahead::of(&queue, Minute(956));
        assert_eq!((ahead.older, ahead.own, ahead.told()), (52, 60, 112));
        let wait = |people| minutes(people, 30.0).unwrap();
        assert!((wait(ahead.older) - 52.0 / 30.0).abs() < 1e-9, "1 min 44 s");
        assert!((wait(ahead.own) - 2.0).abs() < 1e-9, "2 min");
        assert!(
            (wait(ahead.told()) - 112.0 / 30.0).abs() < 1e-9,
            "3 min 44 s"
        );
    }
}
