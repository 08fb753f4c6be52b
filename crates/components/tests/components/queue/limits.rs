//! Invalid options.

use std::time::Duration;

use abide::limits::queue as limits;
use abide::queue::{QueueOptions, Queues, RetryPolicy};

fn refused(options: QueueOptions) -> bool {
    let declare = move || Queues::new().without_consumer("words", options);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(declare)).is_err()
}

#[test]
fn invalid_options_are_refused_when_the_queue_is_declared() {
    assert!(!refused(QueueOptions::default()));
    let none = RetryPolicy::Exponential {
        base: Duration::from_secs(1),
        max: Duration::from_secs(1),
        max_attempts: 0,
    };
    let bad = [
        QueueOptions::default().shards(0),
        QueueOptions::default().shards(limits::MAX_SHARDS + 1),
        QueueOptions::default().max_batch(0),
        QueueOptions::default().max_batch(limits::MAX_BATCH + 1),
        QueueOptions::default().max_batch_bytes(limits::MAX_BATCH_BYTES + 1),
        QueueOptions::default().max_wait(limits::MAX_WAIT * 2),
        QueueOptions::default().concurrency(0),
        QueueOptions::default().timeout(Duration::ZERO),
        QueueOptions::default().timeout(limits::MAX_TIMEOUT * 2),
        QueueOptions::default().retry(none),
        QueueOptions::default().max_messages(0),
        QueueOptions::default().recovery(Duration::ZERO),
    ];
    for options in bad {
        assert!(refused(options.clone()), "{options:?}");
    }
}

#[test]
fn names_are_checked_when_a_queue_is_declared() {
    for name in ["", "a/b", &"x".repeat(limits::MAX_NAME_BYTES + 1)] {
        let declare = || Queues::new().without_consumer(name, QueueOptions::default());
        assert!(std::panic::catch_unwind(declare).is_err(), "{name}");
    }
}
