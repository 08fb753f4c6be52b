//! The metrics of projections.

use std::{collections::BTreeMap, sync::Once};

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use super::{Row, Written};

const LAG: &str = "abide_projection_lag_seconds";
const WRITTEN: &str = "abide_projection_rows_written_total";
const FAILED: &str = "abide_projection_failures_total";

/// Records the age of the oldest change of each table, just before its rows are written.
pub(super) fn lag<'a>(rows: impl Iterator<Item = &'a Row>, now: i64) {
    static DESCRIBED: Once = Once::new();
    DESCRIBED.call_once(describe);
    let mut oldest: BTreeMap<&str, i64> = BTreeMap::new();
    for row in rows {
        let at = oldest.entry(&row.table).or_insert(row.at);
        *at = row.at.min(*at);
    }
    for (table, at) in oldest {
        let age = now.saturating_sub(at).max(0) as f64 / 1e3;
        gauge!(LAG, "table" => table.to_owned()).set(age);
    }
}

pub(super) fn written(written: &Written) {
    for (table, count) in written {
        counter!(WRITTEN, "table" => table.clone()).increment(*count);
    }
}

pub(super) fn failed() {
    counter!(FAILED).increment(1);
}

fn describe() {
    describe_gauge!(
        LAG,
        Unit::Seconds,
        "Time from the oldest change of the newest batch of a read model's table until just before it was written."
    );
    describe_counter!(WRITTEN, "Rows of a read model's table that were written.");
    describe_counter!(
        FAILED,
        "Batches that failed because a read model was unavailable or not ready."
    );
}
