//! Cancel, pause, resume, restart.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::workflow::{
    Attempt, Context, Failure, FailureKind, Filter, RetryPolicy, Status, StepState, WorkflowError,
};

use crate::workflow::support::{Act, Programs, Script, World, run};

fn order() -> Programs {
    Programs::default().with("order", async |ctx: Context, script: Script| {
        let paid = script.step(&ctx, "pay").await?;
        let sent = match script.step(&ctx, "send").await {
            Err(failure) if failure.is_canceled() => {
                script.step(&ctx.shielded(), "refund").await?;
                return Err(failure);
            }
            sent => sent?,
        };
        ctx.sleep("settle", Duration::from_hours(1)).await?;
        let told = script.step(&ctx, "tell").await?;
        Ok(paid * 10_000 + sent * 100 + told)
    })
}

#[test]
fn a_running_step_sees_the_cancellation_and_what_must_be_done_still_is() {
    run(async {
        let world = World::new(order());
        world.start_in("order", "send", Act::UntilCanceled).await;
        world.workflows().cancel("a", "out of stock").await.unwrap();
        // The first reason counts, if it has not ended already.
        let again = world.workflows().cancel("a", "again").await;
        assert!(matches!(again, Ok(()) | Err(WorkflowError::Ended { .. })));
        let failure = world.ended().await.unwrap_err();
        assert_eq!(failure.kind(), FailureKind::Canceled);
        assert_eq!(world.script.names(), ["pay", "send", "refund"]);
        let record = world.record().await;
        assert_eq!(record.status, Status::Canceled);
        assert_eq!(record.error.as_deref(), Some("out of stock"));
        let refused = world.workflows().cancel("a", "late").await;
        assert!(matches!(refused, Err(WorkflowError::Ended { .. })));
        let filter = Filter::default().status(Status::Canceled);
        world
            .until(1, async || {
                world
                    .workflows()
                    .list(filter.clone())
                    .await
                    .unwrap()
                    .instances
                    .len()
            })
            .await;
    });
}

#[test]
fn a_cancellation_survives_a_kill_during_its_cleanup() {
    run(async {
        let world = World::new(order());
        world.script.say("refund", [Act::Hang]);
        world.start_in("order", "send", Act::UntilCanceled).await;
        world.workflows().cancel("a", "out of stock").await.unwrap();
        world.until_called("refund", 1).await;
        let world = world.killed();
        assert!(world.ended().await.unwrap_err().is_canceled());
        assert_eq!(world.script.names(), ["pay", "send", "refund", "refund"]);
    });
}

#[test]
fn a_step_that_succeeds_during_a_cancellation_keeps_its_result() {
    run(async {
        let world = World::new(order());
        world.start_in("order", "send", Act::Hold).await;
        world.workflows().cancel("a", "too late").await.unwrap();
        world.pass(Duration::from_secs(1)).await;
        world.script.release();
        // It is sent, so there is nothing to refund; the sleep is canceled.
        assert!(world.ended().await.unwrap_err().is_canceled());
        assert_eq!(world.script.names(), ["pay", "send"]);
        assert_eq!(world.history().await[1].state, StepState::Done);
    });
}

#[test]
fn a_sleeper_is_canceled_at_once() {
    run(async {
        let world = World::new(order());
        world.start("order").await;
        world.until_step(2, StepState::Waiting).await;
        world.pass(Duration::from_secs(15)).await;
        world.until(0, async || world.node.stats().resident).await;
        world.workflows().cancel("a", "why not").await.unwrap();
        world.until_status(Status::Canceled).await;
    });
}

#[test]
fn nothing_begins_in_an_instance_that_is_paused() {
    run(async {
        let world = World::new(order());
        world.start_in("order", "pay", Act::Hold).await;
        let workflows = world.workflows();
        workflows.pause("a").await.unwrap();
        world.script.release();
        // The attempt ends, and its result is kept.
        world.until_step(0, StepState::Done).await;
        world.pass(Duration::from_secs(30)).await;
        assert_eq!(world.script.names(), ["pay"]);
        let world = world.killed();
        world.pass(Duration::from_secs(30)).await;
        assert_eq!(world.record().await.status, Status::Paused);
        assert_eq!(world.script.names(), ["pay"]);
        world.workflows().resume("a").await.unwrap();
        world.ended().await.unwrap();
        assert_eq!(world.script.names(), ["pay", "send", "tell"]);
    });
}

#[test]
fn a_time_that_passes_during_a_pause_has_passed() {
    run(async {
        let world = World::new(order());
        world.start("order").await;
        world.until_step(2, StepState::Waiting).await;
        world.workflows().pause("a").await.unwrap();
        world.pass(Duration::from_secs(3)).await;
        world.clock.advance(Duration::from_hours(2));
        world.pass(Duration::from_secs(3)).await;
        assert_eq!(world.script.of("tell").len(), 0);
        world.workflows().resume("a").await.unwrap();
        world.until_status(Status::Completed).await;
    });
}

#[test]
fn a_failed_instance_can_be_restarted_from_its_failed_step() {
    run(async {
        let world = World::new(order());
        world
            .script
            .say("send", [Act::Fail(Failure::permanent("no such address"))]);
        world.start("order").await;
        assert!(world.ended().await.is_err());
        let refused = world.workflows().restart_from("a", "sned").await;
        assert!(matches!(refused, Err(WorkflowError::NoStep { .. })));
        world.workflows().restart_from("a", "send").await.unwrap();
        assert_eq!(world.ended().await, Ok(1_03_04));
        assert_eq!(world.script.names(), ["pay", "send", "send", "tell"]);
        let record = world.record().await;
        assert_eq!((record.status, record.run), (Status::Completed, 2));
        // It is known that the first attempt had no effect.
        let sends = world.script.of("send");
        assert_ne!(sends[0].key, sends[1].key);
    });
}

#[test]
fn a_step_of_unknown_outcome_keeps_its_key_when_it_is_restarted() {
    run(async {
        let world = World::new(Programs::default().with(
            "once",
            async |ctx: Context, script: Script| {
                script.step(&ctx, "before").await?;
                let policy = RetryPolicy::once().timeout(Duration::from_secs(1));
                script.step_with(&ctx, "pay", policy.clone()).await?;
                script.step_with(&ctx, "after", policy).await
            },
        ));
        world.script.say("pay", [Act::Hang]);
        world.start("once").await;
        world.ended().await.unwrap_err();
        // From the step itself, and from one before it.
        world
            .script
            .say("pay", [Act::Fail(Failure::temporary("busy"))]);
        world.workflows().restart_from("a", "pay").await.unwrap();
        world.ended().await.unwrap_err();
        world.workflows().restart_from("a", "before").await.unwrap();
        world.ended().await.unwrap();
        let pays = world.script.of("pay");
        assert_eq!(pays.len(), 3);
        assert!(pays.iter().all(|call| call.key == pays[0].key));
        let befores = world.script.of("before");
        assert_ne!(befores[0].key, befores[1].key, "it had succeeded");
        // Done again, it is another payment.
        world.workflows().restart_from("a", "pay").await.unwrap();
        world.ended().await.unwrap();
        assert_ne!(world.script.of("pay")[3].key, pays[0].key);
    });
}

#[test]
fn a_restart_keeps_unrelated_results_and_returns_events() {
    run(async {
        let world = World::new(Programs::default().with(
            "both",
            async |ctx: Context, script: Script| {
                let one = async {
                    script.step(&ctx, "one").await?;
                    ctx.wait_for_event::<i64>("answer", Duration::from_hours(1))
                        .await
                };
                let two = script.step(&ctx, "two");
                let (one, two) = tokio::join!(one, two);
                two?;
                one
            },
        ));
        // One has its result after two.
        world.script.say("one", [Act::Hold]);
        world.start("both").await;
        world
            .until(Some(1), async || {
                world.history().await.get(1).and_then(|step| step.seq)
            })
            .await;
        world.script.release();
        world
            .workflows()
            .send_event("a", "answer", &42)
            .await
            .unwrap();
        assert_eq!(world.ended().await, Ok(42));

        world.workflows().restart_from("a", "one").await.unwrap();
        assert_eq!(world.ended().await, Ok(42));
        assert_eq!(
            (world.script.of("one").len(), world.script.of("two").len()),
            (2, 1)
        );
        // One was there before two was done again, and stays; so does what it took.
        world.workflows().restart_from("a", "two").await.unwrap();
        assert_eq!(world.ended().await, Ok(42));
        assert_eq!(
            (world.script.of("one").len(), world.script.of("two").len()),
            (2, 2)
        );
    });
}

#[test]
fn an_instance_that_was_canceled_can_be_restarted() {
    run(async {
        let world = World::new(order());
        world.start_in("order", "send", Act::UntilCanceled).await;
        world.workflows().cancel("a", "out of stock").await.unwrap();
        world.ended().await.unwrap_err();
        world.workflows().restart_from("a", "send").await.unwrap();
        assert_eq!(world.ended().await, Ok(1_04_05));
        assert_eq!(world.record().await.cancel, None);
    });
}

#[test]
fn a_restart_ends_the_attempt_that_is_on_its_way() {
    run(async {
        let world = World::new(order());
        world.start_in("order", "send", Act::Hang).await;
        world.workflows().restart_from("a", "pay").await.unwrap();
        world.ended().await.unwrap();
        assert_eq!(world.script.names(), ["pay", "send", "pay", "send", "tell"]);
        let sends = world.script.of("send");
        assert_eq!(sends[0].key, sends[1].key);
    });
}

#[test]
fn a_node_that_stops_waits_for_attempts_and_begins_none() {
    run(async {
        let world = World::new(order());
        world.start_in("order", "pay", Act::Hold).await;
        let script = world.script.clone();
        let releasing = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            script.release();
        });
        world.node.shutdown(Duration::from_secs(10)).await.unwrap();
        releasing.await.unwrap();
        assert_eq!(world.script.names(), ["pay"]);
        // Until then the last writes are on their way to the disk.
        world.node.store().close().unwrap();
        let world = world.killed();
        world.ended().await.unwrap();
        assert_eq!(world.script.names(), ["pay", "send", "tell"]);
    });
}

#[test]
fn a_restart_finds_every_event_again_that_was_taken_after_the_step() {
    run(async {
        let world = World::new(Programs::default().with(
            "two",
            async |ctx: Context, script: Script| {
                let hour = Duration::from_hours(1);
                let first: i64 = ctx.wait_for_event("number", hour).await?;
                script.step(&ctx, "between").await?;
                let second: i64 = ctx.wait_for_event("number", hour).await?;
                script.step(&ctx, "after").await?;
                Ok(first * 10 + second)
            },
        ));
        let workflows = world.workflows();
        let refused = Act::Fail(Failure::permanent("no"));
        world.script.say("after", [refused.clone(), refused]);
        world.start("two").await;
        workflows.send_event("a", "number", &4).await.unwrap();
        workflows.send_event("a", "number", &2).await.unwrap();
        assert!(world.ended().await.is_err());
        // From before both, and from between them.
        workflows.restart_from("a", "number").await.unwrap();
        assert!(world.ended().await.is_err());
        workflows.restart_from("a", "between").await.unwrap();
        assert_eq!(world.ended().await, Ok(42));
    });
}

/// Each of two branches has its own effect after a cancellation, although both call it the same and `join!` begins each poll
/// with another of them.
#[test]
fn branches_that_are_canceled_do_the_same_in_each_life() {
    run(async {
        for polls in 0..4 {
            let begun: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
            let told = Arc::clone(&begun);
            let program = move |ctx: Context, _: Script| {
                let told = Arc::clone(&told);
                async move {
                    let branch = async |number: usize| {
                        let undo = async |attempt: Attempt| {
                            let key = attempt.idempotency_key().to_owned();
                            told.lock().unwrap().push((number, key));
                            std::future::pending().await
                        };
                        let policy = RetryPolicy::for_ever();
                        let work = async |attempt: Attempt| {
                            for _ in 0..polls * number {
                                tokio::task::yield_now().await;
                            }
                            attempt.canceled().await;
                            Err::<i64, _>(Failure::temporary("canceled"))
                        };
                        match ctx
                            .step(format!("work {number}"), policy.clone(), work)
                            .await
                        {
                            Err(_) => ctx.shielded().step("undo", policy, undo).await,
                            done => done,
                        }
                    };
                    let (one, two) = tokio::join!(branch(0), branch(1));
                    Ok(one? + two?)
                }
            };
            let world = World::new(Programs::default().with("both", program));
            world.start("both").await;
            world.until_step(1, StepState::Running).await;
            world.workflows().cancel("a", "enough").await.unwrap();
            let undone = |times| {
                let begun = &begun;
                async move { begun.lock().unwrap().len() >= times }
            };
            world.until(true, || undone(2)).await;
            let world = world.killed();
            world.until_meanwhile(true, || undone(4)).await;
            let keys: BTreeSet<_> = begun.lock().unwrap().iter().cloned().collect();
            assert_eq!(keys.len(), 2, "{keys:?}");
        }
    });
}

#[test]
fn no_step_is_called_after_a_pause_has_been_answered() {
    run(async {
        let programs = Programs::default().with("p", async |ctx, script| {
            script.step(&ctx, "first").await?;
            script.step(&ctx, "second").await
        });
        let world = World::new(programs);
        let workflows = world.workflows();
        // The pause comes at any moment of an attempt.
        for moment in 0..60 {
            let id = format!("{moment}");
            workflows.start(&id, &"p".to_owned()).await.unwrap();
            for _ in 0..moment {
                tokio::task::yield_now().await;
            }
            if workflows.pause(&id).await.is_ok() {
                let called = world.script.calls().len();
                tokio::time::sleep(Duration::from_millis(3)).await;
                assert_eq!(world.script.calls().len(), called, "moment {moment}");
                workflows.resume(&id).await.unwrap();
            }
            world.ended_of(&id).await.unwrap();
        }
    });
}
