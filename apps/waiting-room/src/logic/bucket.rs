//! Buckets: where visitors stand in the queue.
//!
//! A bucket is a part of the minute in which its visitors came, so that a queue moves in the order of arrival and a place in it does not
//! depend on how often a visitor asks. The visitors who waited when an event with a draw began are one minute's, and the draw gives
//! each of them a part of it, once.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::minute::Minute;

/// Room for the parts of a minute in the number of a bucket.
const STRIDE: u64 = 4_096;
/// Parts of a minute by arrival: 5 seconds of 60.
const ARRIVALS: u64 = 12;
/// Places in the draw of an event. Visitors with the same place enter in the order in which they ask.
const DRAWN: u64 = 1_024;

/// A bucket. Older ones are smaller.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct BucketId(u64);

impl BucketId {
    /// The first bucket of a minute.
    pub fn first_of(minute: Minute) -> Self {
        Self(minute.0.saturating_mul(STRIDE))
    }

    /// The bucket of visitors who come at a moment.
    pub fn at(unix_millis: u64, minute_millis: u64) -> Self {
        let length = minute_millis.max(1);
        let part = (unix_millis % length).saturating_mul(ARRIVALS) / length;
        Self(Self::first_of(Minute::at(unix_millis, length)).0 + part)
    }

    /// The minute that it is a part of.
    pub fn minute(self) -> Minute {
        Minute(self.0 / STRIDE)
    }

    /// As bytes of a ticket.
    pub fn number(self) -> u64 {
        self.0
    }

    /// From the bytes of a ticket, or a column of a table.
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// The draw at the start of an event, among all visitors who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// When it is, in milliseconds since 1970.
    pub at: u64,
    /// The minute of that moment. Visitors of earlier buckets take part.
    pub minute: Minute,
}

impl Draw {
    /// The bucket of a visitor who comes at a moment: before the draw one that takes part in it.
    pub fn join(self, unix_millis: u64, minute_millis: u64) -> BucketId {
        let bucket = BucketId::at(unix_millis, minute_millis);
        if unix_millis < self.at && !self.takes(bucket) {
            return BucketId::first_of(self.minute.before(1));
        }
        bucket
    }

    /// Whether visitors of a bucket take part.
    pub fn takes(self, bucket: BucketId) -> bool {
        bucket.minute() < self.minute
    }

    /// A visitor's bucket at a moment: after the draw the one that was drawn.
    pub fn place(self, visitor: &[u8], bucket: BucketId, unix_millis: u64) -> BucketId {
        if unix_millis < self.at || !self.takes(bucket) {
            return bucket;
        }
        let place = lot(visitor, self.at) * DRAWN as f64;
        #[allow(clippy::cast_sign_loss, reason = "a lot is not negative")]
        let place = (place as u64).min(DRAWN - 1);
        BucketId(BucketId::first_of(self.minute.before(1)).0 + place)
    }
}

/// A number from 0 to 1 for a visitor in a draw. The visitor id is ours, so visitors cannot choose it.
#[allow(clippy::expect_used, reason = "a digest has more than eight bytes")]
pub fn lot(visitor: &[u8], draw: u64) -> f64 {
    let digest = Sha256::new()
        .chain_update(visitor)
        .chain_update(draw.to_be_bytes())
        .finalize();
    let (first, _) = digest.split_first_chunk::<8>().expect("a digest is longer");
    u64::from_be_bytes(*first) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    #[test]
    fn buckets_are_in_the_order_of_arrival() {
        let at = |seconds: u64| BucketId::at(seconds * 1_000, MINUTE);
        assert_eq!(at(120), BucketId::first_of(Minute(2)));
        assert_eq!(at(120), at(124));
        assert!(at(124) < at(125) && at(179) < at(180));
        assert_eq!(at(179).minute(), Minute(2));
    }

    #[test]
    fn a_draw_takes_each_visitor_who_came_before_it_and_no_later_one() {
        let draw = Draw {
            at: 10 * MINUTE + 30_000,
            minute: Minute(10),
        };
        let early = draw.join(draw.at - 1, MINUTE);
        assert!(
            draw.takes(early),
            "in the minute of the draw, and before it"
        );
        assert!(!draw.takes(draw.join(draw.at, MINUTE)));
        assert_eq!(draw.place(b"a", early, draw.at - 1), early);
        let places: Vec<_> = (0..1_000_u32)
            .map(|visitor| draw.place(&visitor.to_be_bytes(), early, draw.at))
            .collect();
        let next = BucketId::first_of(Minute(10));
        assert!(places.iter().all(|place| *place < next));
        let first_half = BucketId(BucketId::first_of(Minute(9)).0 + DRAWN / 2);
        let half = places.iter().filter(|place| **place < first_half).count();
        assert!((400..600).contains(&half), "{half}");
        for (visitor, place) in (0..1_000_u32).zip(&places) {
            let again = draw.place(&visitor.to_be_bytes(), *place, draw.at + MINUTE);
            assert_eq!(again, *place, "drawn once");
        }
    }
}
