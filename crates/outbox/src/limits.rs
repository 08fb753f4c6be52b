//! Every bound of the outbox, in one place, with the source of its number.

use std::time::Duration;

pub use abide_component::limits::{JITTER, MAX_TIME, SCHEDULE_JITTER};

/// Bytes of a payload. A row of it and its history fits a transaction many times over; larger things belong in storage
/// with their address in the message.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// Bytes of a kind.
pub const MAX_KIND_BYTES: usize = 64;

/// Bytes of a dedup or an ordering key (the runtime's bound of idempotency keys).
pub const MAX_KEY_BYTES: usize = 255;

/// Bytes of a destination: an origin fits, with the longest name that DNS allows.
pub const MAX_DESTINATION_BYTES: usize = 300;

/// Bytes of the line that tells a message from others; the rest is cut.
pub const MAX_SUMMARY_BYTES: usize = 200;

/// Bytes of an error that are kept; the rest is cut.
pub const MAX_ERROR_BYTES: usize = 1_024;

/// Bytes of what the history says of one change; the rest is cut.
pub const MAX_DETAIL_BYTES: usize = MAX_ERROR_BYTES;

/// Bytes of an operation's URL or id.
pub const MAX_OPERATION_BYTES: usize = 2_048;

/// Waits in a message's own schedule.
pub const MAX_SCHEDULE: usize = 100;

/// The longest time that an attempt may take, whatever its handler says.
pub const MAX_TIMEOUT: Duration = Duration::from_mins(5);

/// Attempts and polls of one outbox on their way at a time.
pub const MAX_CONCURRENCY: u32 = 1_024;

/// The longest pause that a receiver can ask for (`Retry-After`): a day, which a person notices.
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// The first pause of a destination that throttles and does not say how long; it doubles while its probes are throttled.
pub const DEFAULT_THROTTLE_PAUSE: Duration = Duration::from_secs(1);

/// The same for one that says how long, if that is less: one that asks for nothing must not be asked without a pause.
pub const MIN_THROTTLE_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause of a destination that throttles and does not ask for more.
pub const MAX_THROTTLE_PAUSE: Duration = Duration::from_secs(30);

/// The least time between two attempts at a destination that has throttled and has no rate of its own: 1,000 a second, more
/// than passes make one at a time.
pub const MIN_SPACING: Duration = Duration::from_millis(1);

/// The longest: an attempt an hour finds out soon enough that a destination takes more.
pub const MAX_SPACING: Duration = Duration::from_hours(1);

/// A destination that throttles more than one in so many of its attempts is sent fewer of them. Of one that throttles less,
/// pauses cost less than a lower rate would, and one that throttles at random would be slowed down without an end.
pub const REFUSED_IN: i64 = 5;

/// The share is taken over half to all of so many attempts, so that an eighth at random is hardly ever taken for a fifth.
pub const COUNTED_ATTEMPTS: i64 = 256;

/// So many attempts that were taken are added, so that the first that is throttled says little.
pub const FORGIVEN_ATTEMPTS: i64 = 8;

/// The rate of a destination that has throttled doubles in so many units of the pause that it asks for: from seven eighths to
/// its capacity in 18, so a few in a hundred of its time are pauses.
pub const DOUBLING_UNITS: i64 = 128;

/// A rate that was held for so many units was near the capacity: the next is an eighth lower, and half otherwise.
pub const SETTLED_UNITS: i64 = 8;

/// The longest unit: a receiver that was away for long is not approached for days.
pub const MAX_RAMP_UNIT: Duration = Duration::from_mins(10);

/// Of so many attempts in a row at a destination each line of messages that wait there has at least one.
pub const TURNS: i64 = 16;

/// The shortest wait before an attempt beyond the last: of a message that nobody gives up, or that was in flight when the process
/// ended. Nothing spins, also if its schedule has no waits.
pub const NO_SCHEDULE_WAIT: Duration = Duration::from_secs(5);

/// The pause of an outbox after this node was too busy to send a message; it doubles with each probe that fails.
pub const NOT_SENT_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause of an outbox because of its own node.
pub const MAX_NOT_SENT_PAUSE: Duration = Duration::from_secs(30);

/// The shortest time between two polls of an operation.
pub const MIN_POLL_PAUSE: Duration = Duration::from_millis(100);

/// How long a poll is expected to take where others wait for their turn: 320 a second of a destination that has the
/// default concurrency.
pub const POLL_TURN: Duration = Duration::from_millis(50);

/// Attempts on their way to an origin that has not answered, or whose last answer was lost; each answer doubles them.
pub const FIRST_ATTEMPTS: u32 = 4;

/// Origins of which is remembered in memory that they answer; with more, all begin anew.
pub const MAX_KNOWN_ORIGINS: usize = 10_000;

/// How long a destination for which there is no room waits if nothing ends: as long as an attempt by default.
pub const PARKED: Duration = Duration::from_secs(30);

/// Messages that one pass claims; the next follows at once.
pub const MAX_CLAIMS: u32 = 256;

/// Destinations that a pass reads at a time.
pub const DESTINATIONS_AT_ONCE: usize = 32;

/// Destinations that an outbox keeps in memory, some hundred bytes each; with more it leaves them to their table.
pub const KNOWN_DESTINATIONS: usize = 256;

/// Messages of each line of a destination that are read beyond those that can be taken: one reading is for as many attempts.
pub const READ_AHEAD: usize = 64;

/// Messages of each line of a destination that are in memory, 16 bytes each; further ones are read when it is their turn.
pub const MAX_READY: usize = 512;

/// Bytes of a payload that is read with the claim of its message; a larger one is read when it is sent.
pub const MAX_CLAIMED_PAYLOAD: usize = 4_096;

/// Bytes of messages that one outbox holds in memory with what they say, because they are about to be sent: some dozens that are
/// small.
pub const MAX_HELD_BYTES: usize = 16 << 10;

/// Messages of a destination that are read at a time into the memory for those that are about to be sent.
pub const HELD_AHEAD: usize = 16;

/// A pass that takes no more than so many messages of a destination takes them one by one, from what is held in memory.
pub const FEW_CLAIMS: usize = 2;

/// For how long a destination's tokens are paid for in advance, so that its row is written about once in that time. One with fewer than
/// ten tokens in it pays for each.
pub const BUCKET_AHEAD: Duration = Duration::from_secs(1);

/// The longest wait in a message's own schedule: a year, which nobody waits for.
pub const MAX_WAIT: Duration = Duration::from_hours(366 * 24);

/// The longest time that what ended is kept longer than asked, so that an object is not woken for each message.
pub const PURGE_SLACK: Duration = Duration::from_hours(1);

/// Messages that one pass removes or lets expire; the next follows at once.
pub const MAX_SWEPT: usize = 200;

/// Messages in one page of a list.
pub const MAX_PAGE: usize = 1_000;

/// Messages that one redrive or discard by a filter takes in one transaction; it says how many are left.
pub const MAX_BATCH: usize = 1_000;

/// Destinations of a node that have labels of their own in its metrics; all others have one together. A label costs whoever
/// scrapes memory for as long as the node lives.
pub const MAX_SHOWN_DESTINATIONS: usize = 50;

/// Messages of an outbox that are counted for the metric of those that wait at a destination: so a backlog is seen, and counting
/// costs the same however long it is.
pub const MAX_COUNTED: usize = 1_000;

/// Outboxes of a node that its metrics sum up, some hundred bytes each; further ones are not shown until others are empty.
pub const MAX_SHOWN_OUTBOXES: usize = 100_000;

/// Warnings that an outbox logs at a time; one line says how many more there are.
pub const MAX_WARNINGS: usize = 10;

/// What is to be told waits for what is in flight up to so many.
pub const MAX_NOTES: usize = 1_000;

/// How often an outbox that works says what it holds.
pub const SHOW_EVERY: Duration = Duration::from_secs(1);

/// Messages among which the oldest that could be tried is looked for: those that were enqueued first.
pub const MAX_LOOKED_AT: usize = 64;

/// Changes that are kept of one message; the oldest but the first give way.
pub const MAX_HISTORY: i64 = 100;

/// Messages that a fan-out makes in one transaction.
pub const FAN_OUT_BATCH: usize = 500;

/// The time that is remembered as seen is at most so much older than that of the newest pass.
pub const CLOCK_STEP: Duration = Duration::from_secs(1);

/// A clock that goes back by more than this has been set.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

/// Waits up to this are waited in memory, longer ones by the object's alarm.
pub const SHORT_WAIT: Duration = Duration::from_secs(1);

/// How long one background task works before another takes over. A class's `background_timeout` has to be longer: a task
/// that is cut off leaves its attempts with an unknown outcome.
pub const PUMP_LIFE: Duration = Duration::from_mins(1);

const _: () = {
    assert!(CLOCK_STEP.as_secs() < CLOCK_TOLERANCE.as_secs());
    assert!(SHORT_WAIT.as_secs() < PUMP_LIFE.as_secs());
    assert!(MAX_PAYLOAD_BYTES <= 1 << 20);
    assert!(MAX_CLAIMS as usize + READ_AHEAD <= MAX_READY);
};
