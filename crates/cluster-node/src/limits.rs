//! How much a member copies at once, and how long it waits.

use std::time::Duration;

/// About how many bytes of records are in a group of a log. A group is one statement, and has at least one record.
pub const GROUP_BYTES: usize = 4 << 20;

/// Time between two attempts to say what the database did not answer, or to adopt what could not be read.
pub const RETRY_EVERY: Duration = Duration::from_millis(200);

/// Time between two questions to the decisions whether there is something to say, when nothing has woken them.
pub const ASK_EVERY: Duration = Duration::from_millis(50);
