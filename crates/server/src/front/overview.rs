//! A node's overview: its classes with their object counts, and its outboxes with their message counts.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use abide_runtime::Node;
use serde::Serialize;
use tokio::sync::Mutex;

use crate::{
    ApiError,
    admin::unavailable,
    history::Report,
    readiness::{Readiness, Reason},
    telemetry,
};

/// How long an object count is reused at least.
const FRESH: Duration = Duration::from_secs(2);

/// Counting reads directories. It uses at most one part in this many of a processor core, however often the page is
/// loaded.
const COUNTING_SHARE: u32 = 20;

/// The program that runs on a node.
#[derive(Debug, Serialize)]
pub(super) struct Overview {
    /// Why the node does not accept requests; empty if it does.
    pub(super) reasons: Vec<Reason>,
    pub(super) classes: Vec<ClassCount>,
    pub(super) outboxes: Vec<OutboxSums>,
    /// What is known of the copy in an object store, if there is one.
    pub(super) backup: Option<Report>,
}

/// The number of stored objects of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ClassCount {
    pub(super) class: String,
    pub(super) binding: String,
    pub(super) objects: usize,
}

/// The totals of the outboxes of a class that have been in memory since the process started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct OutboxSums {
    pub(super) class: String,
    pub(super) queued: u64,
    pub(super) sending: u64,
    pub(super) failing: u64,
    pub(super) dead_letters: u64,
}

/// Counts objects at a limited rate.
pub(super) struct Census {
    readiness: Arc<Readiness>,
    counted: Mutex<Option<Counted>>,
}

#[derive(Clone)]
struct Counted {
    classes: Vec<ClassCount>,
    until: Instant,
}

impl Census {
    pub(super) fn new(readiness: Arc<Readiness>) -> Self {
        Self {
            readiness,
            counted: Mutex::new(None),
        }
    }

    pub(super) async fn overview(&self) -> Result<Overview, ApiError> {
        let (_, node) = self.readiness.parts().ok_or_else(unavailable)?;
        let metrics = node.publish_metrics(|| telemetry::metrics_handle().render());
        Ok(Overview {
            reasons: self.readiness.reasons(),
            classes: self.classes(node).await?,
            outboxes: outboxes(&metrics),
            backup: self.readiness.copier().map(|copier| copier.report()),
        })
    }

    /// One count at a time: concurrent callers wait for it.
    async fn classes(&self, node: Node) -> Result<Vec<ClassCount>, ApiError> {
        let mut counted = self.counted.lock().await;
        let now = Instant::now();
        if let Some(counted) = counted.as_ref().filter(|counted| now < counted.until) {
            return Ok(counted.classes.clone());
        }
        let count = tokio::task::spawn_blocking(move || count(&node)).await;
        let classes = count.map_err(|_| ApiError::panicked())??;
        let pause = (now.elapsed() * COUNTING_SHARE).max(FRESH);
        *counted = Some(Counted {
            classes: classes.clone(),
            until: Instant::now() + pause,
        });
        Ok(classes)
    }
}

fn count(node: &Node) -> Result<Vec<ClassCount>, ApiError> {
    let namespaces = node.env().namespaces();
    let classes = namespaces.iter().map(|namespace| {
        Ok(ClassCount {
            class: namespace.unique_key().to_owned(),
            binding: namespace.binding().to_owned(),
            objects: namespace.written()?.len(),
        })
    });
    classes.collect()
}

/// Reads the outboxes' gauges from the metrics as `/metrics` shows them: this crate does not depend on components, and
/// these names are documented.
fn outboxes(metrics: &str) -> Vec<OutboxSums> {
    let mut classes = BTreeMap::new();
    for (gauge, class, value) in metrics.lines().filter_map(outbox_gauge) {
        let sums = classes.entry(class).or_insert_with_key(|class| OutboxSums {
            class: class.clone(),
            ..OutboxSums::default()
        });
        match gauge {
            "queued" => sums.queued = value,
            "sending" => sums.sending = value,
            "failing" => sums.failing = value,
            "dead_letters" => sums.dead_letters = value,
            _ => {}
        }
    }
    classes.into_values().collect()
}

/// The gauge, the class and the value of a line such as `abide_outbox_queued{class="Shop"} 3`.
fn outbox_gauge(line: &str) -> Option<(&str, String, u64)> {
    let (gauge, rest) = line
        .strip_prefix("abide_outbox_")?
        .split_once("{class=\"")?;
    let (class, value) = rest.rsplit_once("\"} ")?;
    let is_of_class = !class.contains("\",") && !gauge.ends_with("_seconds");
    let value = value.parse::<f64>().ok().filter(|value| *value >= 0.0)?;
    is_of_class.then(|| {
        let class = class.replace("\\\"", "\"").replace("\\\\", "\\");
        #[allow(clippy::cast_sign_loss, reason = "it is not negative")]
        let value = value as u64;
        (gauge, class, value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outboxes_are_summed_up_by_class_as_their_metrics_say() {
        let metrics = "\
# TYPE abide_outbox_queued gauge
abide_outbox_queued{class=\"Shop\"} 3
abide_outbox_queued{class=\"Outbox\"} 0
abide_outbox_dead_letters{class=\"Shop\"} 2
abide_outbox_waiting{class=\"Shop\",destination=\"https://a\"} 7
abide_outbox_messages_total{class=\"Shop\",destination=\"https://a\",event=\"sent\"} 7
abide_outbox_oldest_message_timestamp_seconds{class=\"Shop\"} NaN
abide_outbox_failing{class=\"Shop\"} 1
";
        let outbox = OutboxSums {
            class: "Outbox".to_owned(),
            ..OutboxSums::default()
        };
        let shop = OutboxSums {
            class: "Shop".to_owned(),
            queued: 3,
            failing: 1,
            dead_letters: 2,
            ..OutboxSums::default()
        };
        assert_eq!(outboxes(metrics), [outbox, shop]);
    }
}
