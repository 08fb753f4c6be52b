//! The limits of outcomes, each with the source of its number.

/// Bytes of a name in a schema: of the schema itself, a state, an action or an outcome.
pub const MAX_NAME_BYTES: usize = 64;

/// States, actions, outcomes, or transitions of a schema, each. A person reads a diagram of some dozens.
pub const MAX_NAMES: usize = 1_024;

/// Bytes of an outcome's data, as JSON. A chain is read completely at a cold start: store larger data in a separate
/// table, with its key in the data.
pub const MAX_DATA_BYTES: usize = 1 << 20;

/// Bytes of a machine in a snapshot, as JSON: with its other columns, a row of the storage (2 MiB). A larger machine
/// gets no snapshot.
pub const MAX_SNAPSHOT_BYTES: usize = (2 << 20) - 1_024;

/// Outcomes in one page of a history.
pub const MAX_PAGE: usize = 1_000;

/// Bytes of data in one page of a history: above this no further outcome is added. A page fits into a response.
pub const MAX_PAGE_BYTES: usize = 8 << 20;

/// The newest outcomes that a printed replay shows: what a person scrolls through.
pub const MAX_PRINTED: usize = 1_000;

/// Bytes of an outcome's data in a printed replay; the rest is truncated.
pub const MAX_PRINTED_DATA: usize = 1_024;

/// The latest time, in milliseconds since 1970: the end of the year 9999, as for alarms.
pub const MAX_TIME: i64 = abide_component::limits::MAX_TIME;
