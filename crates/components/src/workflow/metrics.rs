//! The metrics of a workflow's instances.

use std::{collections::BTreeMap, sync::Once};

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

use super::Status;

const STATUS: &str = "abide_workflow_status_total";
const INSTANCES: &str = "abide_workflow_instances";
const STEPS: &str = "abide_workflow_steps_total";
const RUNNING: &str = "abide_workflow_attempts_running";
const LATENESS: &str = "abide_workflow_lateness_seconds";

/// An instance has entered a status.
pub(super) fn reached(workflow: &str, status: Status) {
    describe();
    let workflow = workflow.to_owned();
    counter!(STATUS, "workflow" => workflow, "status" => status.as_str()).increment(1);
}

/// The number of instances of a workflow by status. The labels are the program's workflows and the statuses, so they are
/// few.
pub(super) struct Instances {
    workflow: String,
    counts: BTreeMap<String, i64>,
}

impl Instances {
    /// For a workflow with these numbers of instances in each status.
    pub(super) fn new(workflow: String, counts: impl IntoIterator<Item = (String, i64)>) -> Self {
        describe();
        let mut instances = Self {
            workflow,
            counts: BTreeMap::new(),
        };
        // A status without instances is shown, too.
        for status in Status::ALL {
            instances.add(status.as_str(), 0);
        }
        for (status, count) in counts {
            instances.add(&status, count);
        }
        instances
    }

    /// Records that an instance has changed its status, is new, or was deleted.
    pub(super) fn moved(&mut self, from: Option<&str>, to: Option<&str>) {
        if let Some(from) = from {
            self.add(from, -1);
        }
        if let Some(to) = to {
            self.add(to, 1);
        }
    }

    fn add(&mut self, status: &str, more: i64) {
        let count = self.counts.entry(status.to_owned()).or_default();
        *count += more;
        let labels = [
            ("workflow", self.workflow.clone()),
            ("status", status.to_owned()),
        ];
        gauge!(INSTANCES, &labels).set(*count as f64);
    }
}

/// Looked up by name once per run.
pub(super) struct Metrics {
    done: Counter,
    failed: Counter,
    retried: Counter,
    running: Gauge,
    lateness: Histogram,
}

impl Metrics {
    pub(super) fn new(workflow: &str) -> Self {
        describe();
        let steps = |outcome: &'static str| counter!(STEPS, "workflow" => workflow.to_owned(), "outcome" => outcome);
        Self {
            done: steps("done"),
            failed: steps("failed"),
            retried: steps("retried"),
            running: gauge!(RUNNING, "workflow" => workflow.to_owned()),
            lateness: histogram!(LATENESS, "workflow" => workflow.to_owned()),
        }
    }

    /// A step has its result.
    pub(super) fn ended(&self, is_done: bool) {
        let counter = if is_done { &self.done } else { &self.failed };
        counter.increment(1);
    }

    /// An attempt has failed, and another follows.
    pub(super) fn retried(&self) {
        self.retried.increment(1);
    }

    /// A sleep or a wait has ended, `late` milliseconds late.
    pub(super) fn woken(&self, late: i64) {
        self.lateness.record(late.max(0) as f64 / 1e3);
    }

    /// An attempt is running.
    pub(super) fn begin(&self) -> Running {
        self.running.increment(1.0);
        Running(self.running.clone())
    }
}

/// A running attempt, until this is dropped.
pub(super) struct Running(Gauge);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

fn describe() {
    static DESCRIBED: Once = Once::new();
    DESCRIBED.call_once(|| {
        describe_counter!(
            STATUS,
            "How often instances of a workflow entered a status."
        );
        describe_counter!(
            STEPS,
            "Steps of a workflow that were done or have failed, and attempts that were retried."
        );
        describe_gauge!(INSTANCES, "Instances of a workflow by status.");
        describe_gauge!(RUNNING, "Running attempts at steps of a workflow.");
        describe_histogram!(
            LATENESS,
            Unit::Seconds,
            "Delay of the end of a workflow's sleep, or of its wait for an event."
        );
    });
}
