//! How long sessions wait for each other.

use std::time::Duration;

/// A session answers reads for this long after it sent the last renewal that was confirmed.
pub const LEASE: Duration = Duration::from_secs(5);

/// A session is fenced after it has been seen without a renewal for this long. The difference to [`LEASE`] is the error that the
/// clocks of two machines may have over this time: two fifths.
pub const FENCE_AFTER: Duration = Duration::from_secs(7);

const _: () = assert!(LEASE.as_millis() < FENCE_AFTER.as_millis());

/// Time between two renewals.
pub const RENEW_EVERY: Duration = Duration::from_secs(1);

/// Time between two looks at the tables.
pub const POLL_EVERY: Duration = Duration::from_secs(1);

/// A session claims a shard that is another's share when it has been without an owner for this long.
pub const CLAIM_FOR_OTHERS_AFTER: Duration = Duration::from_secs(2);

/// Time between two removals of records that are archived.
pub const TRIM_EVERY: Duration = Duration::from_secs(10);
