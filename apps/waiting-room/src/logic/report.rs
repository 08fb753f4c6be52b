//! What one data centre tells the others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{bucket::BucketId, minute::Minute};

/// Minutes that a report goes back.
pub const REPORTED_MINUTES: u64 = 6;

/// Where a visitor stands who wants to enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// Has just come.
    New,
    /// Waits, in this bucket.
    Bucket(BucketId),
    /// Waits for the draw, whatever the bucket.
    Draw,
}

impl Lane {
    /// As a column of a table.
    pub fn to_column(self) -> i64 {
        match self {
            Self::New => -1,
            Self::Draw => -2,
            Self::Bucket(bucket) => i64::try_from(bucket.number()).unwrap_or(i64::MAX),
        }
    }

    /// From a column of a table.
    pub fn from_column(column: i64) -> Self {
        match (column, u64::try_from(column)) {
            (_, Ok(bucket)) => Self::Bucket(BucketId::from_number(bucket)),
            (-1, _) => Self::New,
            _ => Self::Draw,
        }
    }
}

/// The state of one data centre.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub data_centre: String,
    /// When it was made, in milliseconds since 1970.
    pub at: u64,
    /// Visitors inside.
    pub active: u64,
    /// Workers that report.
    pub workers: u64,
    /// Visitors who wait, by bucket.
    pub waiting: BTreeMap<BucketId, u64>,
    /// Visitors who came, by minute.
    pub arrivals: BTreeMap<Minute, u64>,
    /// Visitors who were let in, by minute.
    pub admitted: BTreeMap<Minute, u64>,
    /// Visitors who left, by minute.
    pub left: BTreeMap<Minute, u64>,
    /// The minute that `admitted_by_lane` is of.
    pub minute: Minute,
    /// Not heard from for a while, so it gets no slots. Set by the reader of a report, never by its sender.
    pub is_silent: bool,
    /// Those of this minute, by where they stood.
    pub admitted_by_lane: BTreeMap<Lane, u64>,
    /// Of them, those with a number of another counter, by its name.
    pub borrowed: BTreeMap<String, u64>,
}
