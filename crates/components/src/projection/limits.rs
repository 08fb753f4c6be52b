//! The limits of projections, each with the source of its number.

use std::time::Duration;

/// Bytes of a table's or column's name: `PostgreSQL` keeps 63, and names of indexes are longer.
pub const MAX_NAME_BYTES: usize = 48;

/// Columns of a table, beside those that each has.
pub const MAX_COLUMNS: usize = 64;

/// Bytes of a row's id: what a queue takes as a key, with the longest name of a table.
pub const MAX_ID_BYTES: usize = crate::queue::limits::MAX_KEY_BYTES - MAX_NAME_BYTES - 1;

/// Bytes of a row's columns as JSON. [`FEED_BATCH`] of them fit one call of the queue.
pub const MAX_ROW_BYTES: usize = 128 << 10;

/// Rows that a feed hands to the queue at a time.
pub const FEED_BATCH: usize = 100;

/// How soon a feed with rows continues after its object or process has stopped.
pub const RECOVERY: Duration = Duration::from_secs(5);

/// The first pause of a feed whose rows the queue refused; it doubles with each consecutive refusal.
pub const PAUSE: Duration = Duration::from_secs(1);

/// The longest such pause.
pub const MAX_PAUSE: Duration = Duration::from_mins(1);

/// The timeout of connecting to `PostgreSQL`.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a statement may take in a read model. It has to be less than the queue's `timeout`.
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a batch may wait for a read model: longer than one statement, because another may be before it.
pub(crate) const APPLY_TIMEOUT: Duration = Duration::from_secs(25);

/// Rows that a query returns; more are an error.
pub const MAX_RESULT_ROWS: usize = 10_000;

/// Sources that a rebuild asks at a time.
pub(crate) const REBUILD_CONCURRENCY: usize = 16;

/// How often a rebuild asks a source that is too busy, or not there for a moment.
pub(crate) const REBUILD_ATTEMPTS: u32 = 20;

/// Failures that a rebuild names; more are counted.
pub const MAX_FAILURES: usize = 100;

/// How often a rebuild looks whether the queue is empty.
pub(crate) const REBUILD_LOOK: Duration = Duration::from_millis(200);

const _: () = assert!(STATEMENT_TIMEOUT.as_secs() < APPLY_TIMEOUT.as_secs());
const _: () = assert!(APPLY_TIMEOUT.as_secs() < 2 * STATEMENT_TIMEOUT.as_secs());
const _: () = assert!((MAX_ROW_BYTES + 1_024) * FEED_BATCH <= crate::queue::limits::MAX_SEND_BYTES);

/// Rows that one question to a feed lists.
pub const MAX_PAGE: usize = 1_000;

/// Bytes of an error that a feed keeps.
pub const MAX_ERROR_BYTES: usize = 1_024;
