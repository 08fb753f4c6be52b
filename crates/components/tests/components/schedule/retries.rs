//! Handlers that fail.

use std::time::Duration;

use abide::schedule::{Overlap, Phase, RetryPolicy, Spec};
use abide::storage::AlarmState;
use abide_harness::until;

use crate::schedule::support::{Deed, NONE, World, at, doing, failing, plain, run, secs};

#[test]
fn a_failed_attempt_is_repeated_by_the_policy_and_leaves_nothing() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let fails = failing(2);
        world
            .set("t", doing(Spec::once("a", start + 1_000), &fails))
            .await;
        world
            .pass(Duration::from_millis(1_500), Duration::from_millis(500))
            .await;
        let timer = world.timer("t").await;
        assert_eq!(timer.phase, Phase::Retrying);
        let failed = timer.run.unwrap();
        assert_eq!((failed.attempts, failed.fire_at), (1, Some(start + 2_000)));
        assert_eq!(failed.last_error.as_deref(), Some("failure 1"));
        world.pass(secs(10), Duration::from_millis(500)).await;
        assert_eq!(world.calls.attempts("t"), [1, 2, 3]);
        let keys: Vec<String> = world
            .calls
            .all()
            .into_iter()
            .map(|firing| firing.key)
            .collect();
        assert!(keys[0] == keys[1] && keys[1] == keys[2]);
        let effects = world.object().effects().await.unwrap();
        assert_eq!(effects, [("t".to_owned(), start + 1_000, start + 4_000)]);
        assert_eq!(
            world.events("t").await,
            ["created", "retried", "retried", "done"]
        );
    });
}

#[test]
fn a_timer_without_attempts_left_stays_failed_until_an_operator_acts() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let fails = failing(4);
        for name in ["mended", "given up", "kept"] {
            world.set(name, doing(Spec::once("a", start), &fails)).await;
        }
        world.pass(secs(20), secs(1)).await;
        assert_eq!(world.calls.attempts("mended"), [1, 2, 3, 4]);
        for name in ["mended", "given up", "kept"] {
            let timer = world.timer(name).await;
            assert_eq!(timer.phase, Phase::Failed);
            assert_eq!(
                timer.run.unwrap().last_error.as_deref(),
                Some("failure 4; attempt 4 was the last")
            );
            // It is there already, as it was.
            world.set(name, doing(Spec::once("a", start), &fails)).await;
        }
        let object = world.object();
        assert_eq!(object.failed().await.unwrap().len(), 3);
        let none = Deed::default();
        world
            .set("mended", doing(Spec::once("a", start), &none))
            .await;
        object.discard("given up".into()).await.unwrap();
        object.retry("kept".into()).await.unwrap();
        world.pass(secs(20), secs(1)).await;
        assert_eq!(world.timer("mended").await.phase, Phase::Ended);
        assert_eq!(world.timer("given up").await.phase, Phase::Ended);
        assert_eq!(world.timer("kept").await.phase, Phase::Failed);
        assert_eq!(world.calls.attempts("kept"), [1, 2, 3, 4, 1, 2, 3, 4]);
        assert_eq!(world.dues("mended").await, [start]);
    });
}

#[test]
fn a_permanent_failure_is_not_retried_and_a_repeating_timer_continues() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let never = Deed {
            never: true,
            ..Deed::default()
        };
        world
            .set("t", doing(Spec::every("a", secs(10)), &never))
            .await;
        world.pass(secs(30), secs(1)).await;
        assert_eq!(world.calls.attempts("t"), [1, 1, 1]);
        let timer = world.timer("t").await;
        assert_eq!(
            (timer.phase, timer.due_at),
            (Phase::Failed, Some(start + 40_000))
        );
        assert_eq!(world.object().failed().await.unwrap().len(), 3);
    });
}

#[test]
fn a_panicking_handler_is_counted_and_delays_no_timer() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let panics = Deed {
            panics: 99,
            ..Deed::default()
        };
        // Taken together, the one that panics in the middle.
        world.set("before", Spec::once("a", start + 1_000)).await;
        world
            .set("bad", doing(Spec::once("a", start + 1_000), &panics))
            .await;
        world.set("after", Spec::once("a", start + 1_000)).await;
        world.pass(secs(60), secs(1)).await;
        assert_eq!(world.dues("before").await, [start + 1_000]);
        assert_eq!(world.dues("after").await, [start + 1_000]);
        assert_eq!(world.calls.attempts("before"), [1]);
        assert_eq!(world.calls.attempts("after"), [1]);
        assert_eq!(world.calls.attempts("bad"), [1, 2, 3, 4]);
        assert_eq!(world.dues("bad").await, NONE);
        let timer = world.timer("bad").await;
        assert_eq!(timer.phase, Phase::Failed);
        let why = timer.run.unwrap().last_error.unwrap();
        assert!(why.starts_with("the handler panicked; the log"), "{why}");
        assert!(!why.contains("as the test wants it"), "{why}");
        let history = world.object().history(Some("bad".into()), 10).await;
        let failed = history.unwrap().remove(0);
        assert_eq!(
            (failed.event.as_str(), failed.detail.as_deref()),
            ("failed", Some(why.as_str()))
        );
    });
}

#[test]
fn a_timer_can_have_its_own_policy_and_jitter_lengthens_waits() {
    run(async {
        let world = World::new(plain().jitter(true));
        let start = world.now();
        let policy = RetryPolicy::Exponential {
            base: secs(8),
            max: secs(100),
            max_attempts: 3,
        };
        let fails = failing(99);
        for number in 0..20 {
            let spec = doing(Spec::once("a", start), &fails).retry(policy.clone());
            world.set(&number.to_string(), spec).await;
        }
        world.rest().await;
        let mut waits = Vec::new();
        for number in 0..20 {
            let failed = world.timer(&number.to_string()).await.run.unwrap();
            waits.push(failed.fire_at.unwrap() - start);
        }
        assert!(
            waits.iter().all(|wait| (8_000..=10_000).contains(wait)),
            "{waits:?}"
        );
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 10, "they part: {waits:?}");
        world.pass(secs(60), secs(5)).await;
        assert_eq!(world.calls.attempts("7"), [1, 2, 3]);
    });
}

#[test]
fn an_occurrence_during_a_retry_is_skipped_waits_or_overlaps() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        // Each occurrence fails twice: it ends 3 s after its time.
        let fails = failing(2);
        let every = |overlap| doing(Spec::every("a", secs(2)), &fails).overlap(overlap);
        world.set("skip", every(Overlap::Skip)).await;
        world.set("queue", every(Overlap::Queue)).await;
        world.set("allow", every(Overlap::Allow)).await;
        world.pass(secs(10), Duration::from_millis(500)).await;
        assert_eq!(world.dues("skip").await, at(start, &[2, 6]));
        assert!(world.events("skip").await.contains(&"skipped".to_owned()));
        // Those of 4 and of 8 s waited until 5 and 8 s.
        assert_eq!(world.dues("queue").await, at(start, &[2, 4]));
        assert_eq!(world.dues("allow").await, at(start, &[2, 4, 6]));
    });
}

/// Has every timer be in another time zone, as if the machine did not know its own any more, or knew it again.
async fn moved(world: &World, from: &str, to: &str) {
    let sql =
        format!("UPDATE schedule_timers SET spec = replace(spec, '{from}', '{to}') RETURNING id");
    world.object().scalar(sql).await.unwrap();
}

#[test]
fn a_timer_with_an_unknown_next_time_fails_until_it_is_known() {
    run(async {
        let (known, unknown) = ("Europe/Berlin", "Europe/Atlantis");
        let world = World::new(plain());
        world.set("t", Spec::cron("a", "* * * * *", known)).await;
        moved(&world, known, unknown).await;
        world.pass(secs(65), secs(5)).await;
        assert_eq!(world.dues("t").await.len(), 1, "it was due");
        let timer = world.timer("t").await;
        assert_eq!((timer.phase, timer.due_at), (Phase::Failed, None));
        let failed = world.object().failed().await.unwrap();
        assert_eq!(failed.len(), 1);
        let error = failed[0].last_error.as_deref().unwrap();
        assert!(error.contains(unknown), "{error}");
        assert_eq!(world.events("t").await, ["created", "failed", "done"]);
        let refused = world.object().retry("t".into()).await;
        assert!(refused.unwrap_err().to_string().contains(unknown));

        // Without help, and with the missed occurrences.
        moved(&world, unknown, known).await;
        world.pass(secs(125), secs(5)).await;
        let timer = world.timer("t").await;
        assert_eq!((timer.phase, timer.run), (Phase::Waiting, None));
        assert!(world.dues("t").await.len() > 1);

        // Because an operator retries it.
        moved(&world, known, unknown).await;
        world.pass(secs(65), secs(5)).await;
        assert_eq!(world.timer("t").await.phase, Phase::Failed);
        moved(&world, unknown, known).await;
        world.object().retry("t".into()).await.unwrap();
        let timer = world.timer("t").await;
        assert_eq!(timer.phase, Phase::Waiting);
        assert!(timer.due_at.is_some());

        // Or because the timer is discarded.
        moved(&world, known, unknown).await;
        world.pass(secs(65), secs(5)).await;
        world.object().discard("t".into()).await.unwrap();
        assert_eq!(world.timer("t").await.phase, Phase::Ended);
    });
}

#[test]
fn repeatedly_panicking_handlers_delay_others_by_seconds_only() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let panics = Deed {
            panics: 99,
            ..Deed::default()
        };
        // One of them panics in nearly every alarm of the first two minutes.
        for number in 0..12 {
            let at = start + 1_000 + number * 9_000;
            let name = format!("bad {number}");
            world.set(&name, doing(Spec::once("a", at), &panics)).await;
        }
        let dues = at(start, &[5, 25, 45, 65, 85, 105]);
        for due in &dues {
            world
                .set(&format!("good {due}"), Spec::once("a", *due))
                .await;
        }
        // The object is not called meanwhile: that would wake it.
        for _ in 0..150 {
            world.clock.advance(secs(1));
            let now = world.now();
            until("what is due", async || {
                let pending = world.node.alarms(AlarmState::Pending, None, 10);
                let is_due = pending.iter().any(|alarm| alarm.due.unix_millis() <= now);
                let in_flight = world.node.store().alarms().counts().in_flight;
                (!is_due && in_flight == 0).then_some(())
            })
            .await;
        }
        for due in &dues {
            let effects = world.object().effects().await.unwrap();
            let good = format!("good {due}");
            let (_, _, went_off) = effects.iter().find(|(name, ..)| *name == good).unwrap();
            let late = went_off - due;
            assert!(late <= 10_000, "{late} ms");
        }
    });
}

#[test]
fn throttled_attempts_do_not_count_and_end_after_a_week() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let busy = |times| Deed {
            throttled: times,
            after: Some(secs(3_600)),
            ..Deed::default()
        };
        world
            .set("busy", doing(Spec::once("a", start), &busy(10)))
            .await;
        world
            .set("always", doing(Spec::once("a", start), &busy(999)))
            .await;
        world.pass(secs(11 * 3_600), secs(600)).await;
        assert_eq!(world.dues("busy").await, [start]);
        assert_eq!(world.timer("always").await.phase, Phase::Retrying);
        world.pass(secs(7 * 24 * 3_600), secs(1_800)).await;
        let timer = world.timer("always").await;
        assert_eq!(timer.phase, Phase::Failed);
        let error = timer.run.unwrap().last_error.unwrap();
        assert_eq!(
            error,
            "it was throttled for 7.0 days; the last response: later"
        );
    });
}

#[test]
fn patience_begins_when_an_occurrence_is_first_throttled() {
    run(async {
        let days = |days: u64| secs(days * 24 * 3_600);
        let policy = RetryPolicy::Schedule(vec![days(8), days(8)]);
        let world = World::new(plain().retry(policy));
        let start = world.now();
        let deed = Deed {
            fails: 2,
            throttled: 2,
            after: Some(secs(3_600)),
            ..Deed::default()
        };
        world
            .set("late", doing(Spec::once("a", start), &deed))
            .await;
        world.pass(days(17), secs(6 * 3_600)).await;
        assert_eq!(world.dues("late").await, [start]);
    });
}
