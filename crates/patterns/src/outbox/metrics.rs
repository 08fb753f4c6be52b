//! What becomes of messages, counted for whoever scrapes the node.

use std::sync::Once;

use metrics::{counter, describe_counter};

const MESSAGES: &str = "abide_outbox_messages_total";
const CIRCUITS: &str = "abide_outbox_circuits_opened_total";

/// What an attempt led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Sent,
    /// To be tried again.
    Retried,
    /// To be tried again: its destination asked for patience.
    Throttled,
    /// To be tried again: this node had too much to do.
    NotSent,
    /// A dead letter.
    Dead,
}

impl Event {
    fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Retried => "retried",
            Self::Throttled => "throttled",
            Self::NotSent => "not_sent",
            Self::Dead => "dead",
        }
    }
}

/// So many messages had this happen.
pub(super) fn count(event: Event, messages: usize) {
    describe();
    counter!(MESSAGES, "event" => event.as_str()).increment(messages as u64);
}

/// A circuit breaker has opened that was closed.
pub(super) fn circuit_opened() {
    describe();
    counter!(CIRCUITS).increment(1);
}

fn describe() {
    static DESCRIBED: Once = Once::new();
    DESCRIBED.call_once(|| {
        describe_counter!(
            MESSAGES,
            "Attempts of outboxes by what they led to: sent, retried, throttled, not_sent, dead."
        );
        describe_counter!(
            CIRCUITS,
            "Circuit breakers of destinations that have opened."
        );
    });
}
