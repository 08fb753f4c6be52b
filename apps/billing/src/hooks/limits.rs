//! Every bound of webhooks, in one place.

use std::time::Duration;

/// Endpoints of a node: each is asked for at every change.
pub const MAX_ENDPOINTS: usize = 20;

/// Bytes of a secret that is made for an endpoint.
pub const SECRET_BYTES: usize = 32;

/// Notices that a feed hands over at a time.
pub const FEED_BATCH: usize = 50;

/// How long a feed waits after it was refused; twice as long after each time.
pub const PAUSE: Duration = Duration::from_secs(1);

/// How soon a resource is woken again if the task that hands its notices over was lost.
pub const RECOVERY: Duration = Duration::from_secs(30);

/// How long it waits at most.
pub const MAX_PAUSE: Duration = Duration::from_mins(5);

/// How long one task of a feed works before its alarm has another take over.
pub const TASK_LIFE: Duration = Duration::from_secs(20);
