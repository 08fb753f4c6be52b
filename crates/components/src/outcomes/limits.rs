//! Every bound of outcomes, in one place, with the source of its number.

/// Bytes of a name in a schema: of the schema itself, a state, an action or an outcome.
pub const MAX_NAME_BYTES: usize = 64;

/// States, actions, outcomes, or transitions of a schema, each. A person reads a diagram of some dozens.
pub const MAX_NAMES: usize = 1_024;

/// Bytes of an outcome's data, as JSON. A chain is read whole at a cold start: larger things belong in a table of their own,
/// with their key in the data.
pub const MAX_DATA_BYTES: usize = 1 << 20;

/// Bytes of a machine in a snapshot, as JSON: with what stands beside it, a row of the storage (2 MiB). No snapshot is taken
/// of a larger one.
pub const MAX_SNAPSHOT_BYTES: usize = (2 << 20) - 1_024;

/// Outcomes in one page of a history.
pub const MAX_PAGE: usize = 1_000;

/// Bytes of data in one page of a history: no further outcome is taken when so many are there. A page fits an answer.
pub const MAX_PAGE_BYTES: usize = 8 << 20;

/// Outcomes, the newest, that a printed replay shows: what a person scrolls through.
pub const MAX_PRINTED: usize = 1_000;

/// Bytes of an outcome's data in a printed replay; the rest is cut.
pub const MAX_PRINTED_DATA: usize = 1_024;

/// The latest time, in milliseconds since 1970: the end of the year 9999, as for alarms.
pub const MAX_TIME: i64 = abide_component::limits::MAX_TIME;
