//! Every limit of webhooks, in one place.

use std::time::Duration;

/// Maximum number of endpoints of a node: each is read at every change.
pub const MAX_ENDPOINTS: usize = 20;

/// Size of a generated endpoint secret in bytes.
pub const SECRET_BYTES: usize = 32;

/// Notices that a feed passes on at a time.
pub const FEED_BATCH: usize = 50;

/// How long a feed waits after a failure; doubles each time.
pub const PAUSE: Duration = Duration::from_secs(1);

/// How soon a resource is woken if the task that passes its notices on was lost.
pub const RECOVERY: Duration = Duration::from_secs(30);

/// The longest such wait.
pub const MAX_PAUSE: Duration = Duration::from_mins(5);

/// How long one task of a feed runs before its alarm starts another.
pub const TASK_LIFE: Duration = Duration::from_secs(20);
