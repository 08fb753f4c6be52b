//! How much a member copies at once, and how long it waits.

use std::time::Duration;

/// About how many bytes of records are in a group of a log. A group is one statement, and has at least one record.
pub const GROUP_BYTES: usize = 4 << 20;

/// The most that the clocks of a machine and of the database may differ when a member joins: one of them is wrong.
pub const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(2);

/// How long a member that leaves waits for the database.
pub const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

/// Time between two attempts to say what the database did not answer, or to forget a shard with objects that are open. The first one
/// between two attempts to adopt a shard, or to make a run; each further one is twice as long.
pub const RETRY_EVERY: Duration = Duration::from_millis(200);

/// The longest time between two attempts to adopt a shard, or to make a run.
pub const MAX_RETRY_PAUSE: Duration = Duration::from_secs(30);

/// How long a member that joins waits for the object store, to see whether it is the cluster's.
pub const MARK_PATIENCE: Duration = Duration::from_secs(5);

/// The longest time between two attempts to merge runs. Each reads them as a whole.
pub const MAX_MERGE_PAUSE: Duration = Duration::from_mins(10);

/// Time between two looks for replaced runs that can be removed, when the list does not change.
pub const REMOVE_EVERY: Duration = Duration::from_hours(1);

/// Bytes of a member's log after which its store begins a checkpoint, at the latest, and the most of them that are in a run unless one
/// checkpoint is farther than that from the one before. Parts that are inherited come on top.
pub const RUN_BYTES: u64 = 64 << 20;

/// How long a shard that is to be given away waits for a run that is being made. Then the run is given up.
pub const MOVE_PATIENCE: Duration = Duration::from_secs(2);

/// Time between two questions to the decisions whether there is something to say, when nothing has woken them.
pub const ASK_EVERY: Duration = Duration::from_millis(50);
