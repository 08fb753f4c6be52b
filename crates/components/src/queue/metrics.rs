//! The metrics of a shard.

use std::sync::Once;

use metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge};

use super::Counts;

const MESSAGES: &str = "abide_queue_messages";
const DEAD: &str = "abide_queue_dead_letters";
const OLDEST: &str = "abide_queue_oldest_message_seconds";
const FAILING: &str = "abide_queue_failing";
const CONSUMED: &str = "abide_queue_messages_consumed_total";
const FAILED: &str = "abide_queue_attempts_failed_total";

/// Looked up by name once per activation of a shard.
pub(super) struct Metrics {
    messages: Gauge,
    dead: Gauge,
    oldest: Gauge,
    failing: Gauge,
    consumed: Counter,
    failed: Counter,
}

impl Metrics {
    pub(super) fn new(queue: &str, shard: u32) -> Self {
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(describe);
        let labels = [("queue", queue.to_owned()), ("shard", shard.to_string())];
        Self {
            messages: gauge!(MESSAGES, &labels),
            dead: gauge!(DEAD, &labels),
            oldest: gauge!(OLDEST, &labels),
            failing: gauge!(FAILING, &labels),
            consumed: counter!(CONSUMED, &labels),
            failed: counter!(FAILED, &labels),
        }
    }

    pub(super) fn show(&self, counts: &Counts, now: i64) {
        self.messages.set(counts.messages as f64);
        self.dead.set(counts.dead as f64);
        self.failing.set(f64::from(counts.failing));
        let age = counts.oldest.map_or(0, |sent_at| (now - sent_at).max(0));
        self.oldest.set(age as f64 / 1e3);
    }

    pub(super) fn consumed(&self, messages: u64) {
        self.consumed.increment(messages);
    }

    pub(super) fn failed(&self, attempts: u64) {
        self.failed.increment(attempts);
    }
}

fn describe() {
    describe_gauge!(MESSAGES, "Unconsumed messages of a queue's shard.");
    describe_gauge!(DEAD, "Dead letters of a queue's shard.");
    describe_gauge!(
        OLDEST,
        Unit::Seconds,
        "Age of the oldest message of a queue's shard, when the shard last looked."
    );
    describe_gauge!(
        FAILING,
        "1 while a queue's shard is paused because its consumer failed the newest batch as a whole."
    );
    describe_counter!(CONSUMED, "Messages of a queue's shard that were consumed.");
    describe_counter!(FAILED, "Failed attempts at messages of a queue's shard.");
}
