//! Detects handlers that run without ever awaiting, and commits that wait too long.
//!
//! Such a handler blocks every object of its worker, and nothing on that thread can report it. Each worker therefore
//! records when a poll of user code began, and a separate thread checks the records. It cannot stop the handler; it
//! logs the object's name, and [`Node::stuck_workers`](crate::Node::stuck_workers) reports the worker until it
//! continues.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    binding::Binding,
    envelope::{Mailbox, Message},
    limits::{STUCK_POLL, WATCHDOG_INTERVAL},
    router::{Phase, Router},
    stall::{CommitStall, StallCause},
    stats::{NodeStats, publish_memory},
    unwind::guarded,
};

/// Watches the workers until the node stops, and publishes the metrics.
pub(crate) async fn watch(router: Arc<Router>, bindings: Arc<[Arc<Binding>]>) {
    let mut reported = vec![0; router.workers.len()];
    let mut stopped = router.stopped.subscribe();
    let mut stalled = None;
    loop {
        let now = router.clock.now();
        for (index, (worker, reported)) in
            router.warm_workers().iter().zip(&mut reported).enumerate()
        {
            inspect(index, worker, &bindings, now, reported);
        }
        let memory = router.store.memory();
        if memory.is_tight() {
            for worker in &router.workers {
                // A worker that has ended has no objects.
                let _ = worker.send(Message::Trim);
            }
        }
        look_at_commits(CommitStall::of(&router.store), &mut stalled);
        // The panic was logged and counted.
        let _ = guarded(&router.egress.panics, "the metrics recorder", || {
            publish(&router, &bindings, || ());
        });
        if router.phase() == Phase::Stopped {
            break;
        }
        tokio::select! {
            biased;
            () = router.clock.sleep_until(now + WATCHDOG_INTERVAL) => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    }
}

fn inspect(
    index: usize,
    worker: &Mailbox,
    bindings: &[Arc<Binding>],
    now: Duration,
    reported: &mut u64,
) {
    let stuck = worker.watch.age(now).filter(|(_, age)| *age >= STUCK_POLL);
    worker.watch.set_stuck(stuck.is_some());
    match stuck {
        Some((began, age)) if began != *reported => {
            *reported = began;
            let (binding, id) = worker.watch.object();
            let class = bindings
                .get(binding)
                .map_or("?", |binding| binding.class_name.as_str());
            tracing::error!(
                worker = index, class, %id, seconds = age.as_secs_f64(),
                "a handler runs without awaiting and blocks its worker; other objects on this worker wait"
            );
        }
        None if *reported != 0 => {
            *reported = 0;
            tracing::info!(worker = index, "the blocked worker continues");
        }
        _ => {}
    }
}

/// Publishes the current metrics to the program's `metrics` recorder, then calls `read`.
///
/// The recorder belongs to the process, and a process can have several nodes, each of which sets the same gauges: only
/// one publishes at a time.
pub(crate) fn publish<R>(
    router: &Router,
    bindings: &[Arc<Binding>],
    read: impl FnOnce() -> R,
) -> R {
    static RECORDER: Mutex<()> = Mutex::new(());
    // A panic of the recorder leaves none of our state inconsistent.
    let _one = RECORDER.lock().unwrap_or_else(PoisonError::into_inner);
    publish_memory(router.store.memory());
    stats(router).publish();
    let failing = router.store.alarms().failing();
    for binding in bindings {
        let count = failing.get(&binding.no).copied().unwrap_or(0);
        metrics::gauge!("abide_alarms_failing", "class" => binding.unique_key.clone())
            .set(count as f64);
    }
    read()
}

/// A commit that waits for space also blocks its worker, through no fault of an object's code; a commit that waits for
/// the disk delays every later answer. `reported` is the last report.
fn look_at_commits(stall: Option<CommitStall>, reported: &mut Option<StallCause>) {
    let cause = stall.map(|stall| stall.cause);
    if *reported == cause {
        return;
    }
    match stall {
        Some(CommitStall { cause, lasted }) => tracing::error!(
            reason = cause.as_str(),
            seconds = lasted.as_secs_f64(),
            "commits are stalled, waiting for {cause}"
        ),
        None => tracing::info!("commits are no longer stalled"),
    }
    *reported = cause;
}

/// The node's current metrics.
pub(crate) fn stats(router: &Router) -> NodeStats {
    let mut stats = NodeStats::default();
    for worker in &router.workers {
        stats.add(&worker.counters);
        stats.outstanding += worker.outstanding() as u64;
        stats.held += worker.lane.len() as u64;
    }
    stats.stuck_workers = router.stuck_workers() as u64;
    stats.panics += router.egress.panics.get();
    let alarms = router.store.alarms().counts();
    stats.alarms_pending = alarms.pending;
    stats.alarms_failed = alarms.failed;
    stats.alarms_failing = alarms.failing;
    stats.alarms_suspect = alarms.suspects;
    stats
}
