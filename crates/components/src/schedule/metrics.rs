//! The metrics of all schedules of a node.

use std::sync::Once;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

const OCCURRENCES: &str = "abide_schedule_occurrences_total";
const LATENESS: &str = "abide_schedule_lateness_seconds";
const RUNNING: &str = "abide_schedule_attempts_running";

/// Counts of occurrences and attempts, by their event in the history.
const OUTCOMES: [&str; 6] = ["done", "retried", "failed", "skipped", "missed", "dropped"];

/// Counts an event.
pub(super) fn happened(event: &str) {
    if let Some(outcome) = OUTCOMES.into_iter().find(|outcome| *outcome == event) {
        counter!(OCCURRENCES, "outcome" => outcome).increment(1);
    }
}

/// The first attempt at an occurrence begins, `late` milliseconds after its time.
pub(super) fn begun(late: i64) {
    histogram!(LATENESS).record(late.max(0) as f64 / 1e3);
}

/// A running background attempt, until this is dropped.
pub(super) struct Running(());

impl Running {
    pub(super) fn begin() -> Self {
        gauge!(RUNNING).increment(1.0);
        Self(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        gauge!(RUNNING).decrement(1.0);
    }
}

pub(super) fn describe() {
    static DESCRIBED: Once = Once::new();
    DESCRIBED.call_once(|| {
        describe_counter!(
            OCCURRENCES,
            "Occurrences of timers that were done, failed, skipped, missed or dropped, and attempts that were retried."
        );
        describe_histogram!(
            LATENESS,
            Unit::Seconds,
            "Time from the planned time of a timer's occurrence to its first attempt."
        );
        describe_gauge!(
            RUNNING,
            "Running background attempts at occurrences of timers."
        );
    });
}
