//! The limits of the outbox, each with the source of its number.

use std::time::Duration;

pub use abide_component::limits::{JITTER, MAX_TIME, SCHEDULE_JITTER};

/// Bytes of a payload. Its row and history fit into a transaction many times over; store larger data elsewhere and put
/// its address into the message.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// Bytes of a kind.
pub const MAX_KIND_BYTES: usize = 64;

/// Bytes of a dedup or an ordering key (the runtime's bound of idempotency keys).
pub const MAX_KEY_BYTES: usize = 255;

/// Bytes of a destination: enough for an origin with the longest DNS name.
pub const MAX_DESTINATION_BYTES: usize = 300;

/// Bytes of a message's summary; the rest is truncated.
pub const MAX_SUMMARY_BYTES: usize = 200;

/// Bytes of a stored error; the rest is truncated.
pub const MAX_ERROR_BYTES: usize = 1_024;

/// Bytes of an event's detail in the history; the rest is truncated.
pub const MAX_DETAIL_BYTES: usize = MAX_ERROR_BYTES;

/// Bytes of an operation's URL or id.
pub const MAX_OPERATION_BYTES: usize = 2_048;

/// Waits in a message's own schedule.
pub const MAX_SCHEDULE: usize = 100;

/// The longest time that an attempt may take, whatever its handler says.
pub const MAX_TIMEOUT: Duration = Duration::from_mins(5);

/// Attempts and polls of one outbox in flight.
pub const MAX_CONCURRENCY: u32 = 1_024;

/// The longest pause that a receiver can ask for (`Retry-After`): a day, which an operator notices.
pub const MAX_RETRY_AFTER: Duration = abide_component::limits::MAX_RETRY_AFTER;

/// The shortest time between two attempts at a destination that has throttled and has no configured rate: 1,000 a
/// second, more than passes make one at a time.
pub const MIN_SPACING: Duration = Duration::from_millis(1);

/// The longest: with an attempt an hour, the outbox notices soon enough that a destination accepts more.
pub const MAX_SPACING: Duration = Duration::from_hours(1);

/// A destination that throttles more than one in this many of its attempts gets a lower rate. If it throttles less,
/// pauses cost less than a lower rate, and one that throttles at random would be slowed down indefinitely.
pub(crate) const REFUSED_IN: i64 = 5;

/// The share is computed over half to all of this many attempts, so a random share of an eighth is hardly ever mistaken
/// for a fifth.
pub(crate) const COUNTED_ATTEMPTS: i64 = 256;

/// This many accepted attempts are added, so the first throttled one has little weight.
pub(crate) const FORGIVEN_ATTEMPTS: i64 = 8;

/// The rate of a destination that has throttled doubles in this many units of the pause that it asks for: from seven
/// eighths to its capacity in 18, so pauses take a few percent of its time.
pub(crate) const DOUBLING_UNITS: i64 = 128;

/// A rate that was held for this many units was near the capacity: the next is an eighth lower, otherwise half.
pub(crate) const SETTLED_UNITS: i64 = 8;

/// The longest unit: otherwise recovering from a long outage would take days.
pub const MAX_RAMP_UNIT: Duration = Duration::from_mins(10);

/// In this many consecutive attempts at a destination, each of its waiting lines has at least one.
pub const TURNS: i64 = 16;

/// The shortest wait before an attempt beyond the last: of a message that is never given up, or that was in flight at a
/// crash. It prevents busy loops even if the schedule has no waits.
pub(crate) const NO_SCHEDULE_WAIT: Duration = Duration::from_secs(5);

/// The pause of an outbox on an overloaded node; it doubles with each failed probe.
pub(crate) const NOT_SENT_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause of an outbox on an overloaded node.
pub const MAX_NOT_SENT_PAUSE: Duration = Duration::from_secs(30);

/// The shortest time between two polls of an operation.
pub const MIN_POLL_PAUSE: Duration = Duration::from_millis(100);

/// How long a poll is expected to take when others wait for their turn: 320 a second for a destination with the default
/// concurrency.
pub(crate) const POLL_TURN: Duration = Duration::from_millis(50);

/// Changes that a stream remembers for watchers that connect again, 16 bytes each.
pub const MAX_LOGGED_CHANGES: usize = 10_000;

/// Messages that a watcher is sent when it continues where it was; one that has missed more receives a snapshot.
pub const MAX_RESUMED: usize = 500;

/// How long changes are remembered without a watcher.
pub const RESUME_WITHIN: Duration = Duration::from_mins(1);

/// One in this many polls of a tick is for operations of earlier ticks, the others are first for what the tick has sent:
/// 15 of the classic 20.
pub(crate) const OTHER_POLLS: u32 = 4;

/// Attempts in flight to an origin whose last response was lost; twice as many after a response, doubled with each more.
pub(crate) const FIRST_ATTEMPTS: u32 = 4;

/// Origins that are remembered in memory as responding; with more, all start again.
pub const MAX_KNOWN_ORIGINS: usize = 10_000;

/// How long a destination without room waits if nothing finishes: the default timeout of an attempt.
pub(crate) const PARKED: Duration = Duration::from_secs(30);

/// Messages that one pass claims; the next follows at once.
pub const MAX_CLAIMS: u32 = 256;

/// Destinations that a pass reads at a time.
pub(crate) const DESTINATIONS_AT_ONCE: usize = 32;

/// Destinations that an outbox keeps in memory, some hundred bytes each; with more it leaves them to their table.
pub(crate) const KNOWN_DESTINATIONS: usize = 256;

/// Messages of each line of a destination that are read ahead: one read serves this many attempts.
pub(crate) const READ_AHEAD: usize = 64;

/// Messages of each line of a destination that are in memory, 16 bytes each; further ones are read when it is their turn.
pub const MAX_READY: usize = 512;

/// Bytes of a payload that is read with the claim of its message; a larger one is read when it is sent.
pub const MAX_CLAIMED_PAYLOAD: usize = 4_096;

/// Bytes of messages that one outbox caches with their payloads, because they are about to be sent: a few dozen small
/// ones.
pub const MAX_HELD_BYTES: usize = 16 << 10;

/// Messages of a destination that are read at a time into the cache of the next payloads.
pub(crate) const HELD_AHEAD: usize = 16;

/// A pass that claims at most this many messages of a destination claims them one by one, from the cache.
pub(crate) const FEW_CLAIMS: usize = 2;

/// For how long a destination's tokens are stored in advance: its row is written about once in that time. With fewer
/// than ten tokens in it, each is stored.
pub(crate) const BUCKET_AHEAD: Duration = Duration::from_secs(1);

/// The longest wait in a message's own schedule: a year.
pub const MAX_WAIT: Duration = Duration::from_hours(366 * 24);

/// How much longer than requested a finished message may be kept, so an object is not woken for each message.
pub(crate) const PURGE_SLACK: Duration = Duration::from_hours(1);

/// Messages that one pass removes or lets expire; the next follows at once.
pub const MAX_SWEPT: usize = 200;

/// Messages in one page of a list.
pub const MAX_PAGE: usize = 1_000;

/// Messages that one bulk redrive or discard processes in one transaction; it reports whether more remain.
pub const MAX_BATCH: usize = 1_000;

/// Destinations of a node with their own metric labels; all others share one. A label costs the scraper memory for as
/// long as the node runs.
pub const MAX_SHOWN_DESTINATIONS: usize = 50;

/// Messages of an outbox that are counted for the metric of waiting messages at a destination: enough to see a backlog,
/// at a constant cost.
pub const MAX_COUNTED: usize = 1_000;

/// Outboxes of a node that its metrics sum up, some hundred bytes each; further ones are not included until others are
/// empty.
pub const MAX_SHOWN_OUTBOXES: usize = 100_000;

/// Warnings that an outbox logs at a time; one line counts the rest.
pub const MAX_WARNINGS: usize = 10;

/// Reports wait for up to this many attempts in flight.
pub const MAX_NOTES: usize = 1_000;

/// How often a busy outbox publishes its metrics.
pub(crate) const SHOW_EVERY: Duration = Duration::from_secs(1);

/// Messages among which the oldest waiting message is searched: those that were enqueued first.
pub const MAX_LOOKED_AT: usize = 64;

/// History events kept of one message; the oldest except the first are dropped.
pub const MAX_HISTORY: i64 = 100;

/// Fan-outs fill one part in this many of an outbox: the rest is for messages that the program enqueues itself.
pub(crate) const FAN_OUT_SHARE: i64 = 2;

/// Messages that a fan-out creates in one transaction.
pub(crate) const FAN_OUT_BATCH: usize = 500;

const _: () = {
    assert!(MAX_PAYLOAD_BYTES <= 1 << 20);
    assert!(MAX_CLAIMS as usize + READ_AHEAD <= MAX_READY);
};
