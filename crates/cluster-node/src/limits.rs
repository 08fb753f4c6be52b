//! How much a member copies at once, and how long it waits.

use std::time::Duration;

/// About how many bytes of records are in a group of a log. A group is one statement, and has at least one record.
pub const GROUP_BYTES: usize = 4 << 20;

/// The most that the clocks of a machine and of the database may differ when a member joins: one of them is wrong.
pub const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(2);

/// How long a member that leaves waits for the database.
pub const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

/// Time between two attempts to say what the database did not answer, or to forget a shard with objects that are open. The first one
/// between two attempts to adopt a shard; each further one is twice as long.
pub const RETRY_EVERY: Duration = Duration::from_millis(200);

/// The longest time between two attempts to adopt a shard.
pub const MAX_RETRY_PAUSE: Duration = Duration::from_secs(30);

/// Time between two questions to the decisions whether there is something to say, when nothing has woken them.
pub const ASK_EVERY: Duration = Duration::from_millis(50);
