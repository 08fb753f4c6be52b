//! Steps, their retries, sleeps, and what is known of an instance.

use std::time::Duration;

use abide::limits::workflow as limits;
use abide::workflow::{
    Context, Ended, Failure, Filter, ListBy, Listed, ListedVersion, RetryPolicy, Status, StepKind,
    StepState, Workflow, WorkflowDirectory, WorkflowError,
};

use crate::workflow::support::{Act, Programs, Script, Test, World, policy, run};

fn two_steps() -> Programs {
    Programs::default().with("two", async |ctx, script| {
        let first = script.step(&ctx, "first").await?;
        let second = script.step(&ctx, "second").await?;
        Ok(first * 100 + second)
    })
}

#[test]
fn steps_are_called_one_after_the_other_and_the_last_word_is_the_result() {
    run(async {
        let world = World::new(two_steps());
        world.start("two").await;
        assert_eq!(world.ended().await, Ok(102));
        assert_eq!(world.script.names(), ["first", "second"]);
        assert_eq!(world.record().await.status, Status::Completed);
        let history = world.history().await;
        let told: Vec<_> = history
            .iter()
            .map(|step| {
                (
                    step.name.as_str(),
                    step.kind,
                    step.state,
                    step.attempts,
                    step.seq,
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("first", StepKind::Step, StepState::Done, 1, Some(1)),
                ("second", StepKind::Step, StepState::Done, 1, Some(2)),
            ]
        );
        let output = world.workflows().output("a", "second").await.unwrap();
        assert_eq!(output.as_deref(), Some("2"));
    });
}

#[test]
fn an_id_starts_one_instance_however_often_it_is_started() {
    run(async {
        let world = World::new(two_steps().with("other", async |_, _| Ok(7)));
        let workflows = world.workflows();
        world.start("two").await;
        assert!(workflows.start("a", &"two".into()).await.unwrap().duplicate);
        let other = workflows.start("a", &"other".into()).await;
        assert!(matches!(other, Err(WorkflowError::IdReused { .. })));
        world.ended().await.unwrap();
        let again = workflows.start("a", &"two".into()).await.unwrap();
        assert_eq!((again.duplicate, again.status), (true, Status::Completed));
        assert_eq!(world.script.calls().len(), 2);
    });
}

#[test]
fn invalid_input_is_refused_and_leaves_nothing_behind() {
    run(async {
        let world = World::new(two_steps());
        let workflows = world.workflows();
        for id in ["", &"x".repeat(limits::MAX_ID_BYTES + 1)] {
            let refused = workflows.start(id, &"two".into()).await;
            assert!(
                matches!(refused, Err(WorkflowError::Invalid(_))),
                "{refused:?}"
            );
        }
        let not_there = |result| matches!(result, Err(WorkflowError::NotFound { id }) if id == "a");
        assert!(not_there(workflows.status("a").await.map(drop)));
        assert!(not_there(workflows.result("a").await.map(drop)));
        assert!(not_there(workflows.send_event("a", "x", &1).await));
        assert!(not_there(workflows.cancel("a", "why").await));
        assert!(not_there(workflows.restart_from("a", "x").await));
        assert_eq!(
            workflows.list(Filter::default()).await.unwrap().instances,
            []
        );
    });
}

#[test]
fn a_failed_step_is_tried_again_with_the_same_key_and_pauses_that_grow() {
    run(async {
        let world = World::new(two_steps());
        let busy = || Act::Fail(Failure::temporary("busy"));
        world.script.say("first", [busy(), Act::Panic, busy()]);
        world.start("two").await;
        world.until_called("first", 1).await;
        world.until_step(0, StepState::Waiting).await;
        let step = world.history().await.remove(0);
        assert!(step.error.unwrap().contains("busy"));
        let wait = step.due.unwrap() - world.now();
        assert!((1_000..=1_250).contains(&wait), "{wait}");
        world.clock.advance(Duration::from_millis(999));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(world.script.of("first").len(), 1);
        assert_eq!(world.ended().await, Ok(405));
        let calls = world.script.of("first");
        let numbers: Vec<u32> = calls.iter().map(|call| call.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert!(calls.iter().all(|call| call.key == calls[0].key));
        assert_ne!(calls[0].key, world.script.of("second")[0].key);
    });
}

#[test]
fn a_step_fails_with_its_last_attempt_or_at_once_if_it_cannot_succeed() {
    run(async {
        let world = World::new(
            Programs::default()
                .with("tired", async |ctx, script| {
                    let policy = policy().attempts(3);
                    script.step_with(&ctx, "first", policy).await
                })
                .with("mends", async |ctx, script| {
                    match script.step(&ctx, "first").await {
                        Ok(_) => Ok(0),
                        Err(_) => script.step(&ctx, "instead").await,
                    }
                }),
        );
        let busy = Act::Fail(Failure::temporary("busy"));
        world
            .script
            .say("first", [busy.clone(), busy.clone(), busy]);
        world.start("tired").await;
        let failure = world.ended().await.unwrap_err();
        assert_eq!(failure.message(), "busy; attempt 3 was the last");
        assert_eq!(world.record().await.status, Status::Failed);
        assert_eq!(
            world.record().await.error.as_deref(),
            Some(failure.message())
        );

        world
            .script
            .say("first", [Act::Fail(Failure::permanent("never"))]);
        world.workflows().start("b", &"mends".into()).await.unwrap();
        assert_eq!(world.ended_of("b").await, Ok(5));
    });
}

#[test]
fn an_attempt_that_hangs_ends_with_its_time() {
    run(async {
        let world = World::new(two_steps());
        world.start_in("two", "first", Act::Hang).await;
        world.pass(Duration::from_secs(9)).await;
        assert_eq!(world.history().await[0].state, StepState::Running);
        assert_eq!(world.ended().await, Ok(203));
    });
}

#[test]
fn an_attempt_that_takes_minutes_is_one_attempt() {
    run(async {
        let world = World::new(Programs::default().with("slow", async |ctx, script| {
            let policy = policy().timeout(Duration::from_mins(10));
            script.step_with(&ctx, "first", policy).await
        }));
        world.start_in("slow", "first", Act::Hold).await;
        world.pass(Duration::from_mins(4)).await;
        world.script.release();
        assert_eq!(world.ended().await, Ok(1));
        assert_eq!(world.history().await[0].attempts, 1);
    });
}

#[test]
fn an_attempt_counts_although_the_process_dies_in_it() {
    run(async {
        let once = async |ctx, script: crate::workflow::support::Script| {
            script.step_with(&ctx, "first", RetryPolicy::once()).await
        };
        let world = World::new(Programs::default().with("once", once));
        world.start_in("once", "first", Act::Hang).await;
        let world = world.killed();
        let failure = world.ended().await.unwrap_err();
        assert!(
            failure
                .message()
                .contains("stopped before the response arrived; attempt 1 was the last")
        );
        assert_eq!(world.script.calls().len(), 1);
    });
}

#[test]
fn a_function_is_not_called_before_its_attempt_is_on_disk() {
    run(async {
        let world = World::new(two_steps());
        world.start_in("two", "first", Act::Hold).await;
        world.disk.hold_syncs();
        world.script.release();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let called = world.script.names();
        // Before it may fail: a node does not end while its disk stands still.
        world.disk.release_syncs();
        assert_eq!(called, ["first"]);
        assert_eq!(world.ended().await, Ok(102));
    });
}

#[test]
fn a_stored_result_is_returned_after_a_kill_without_calling_its_step() {
    run(async {
        let world = World::new(two_steps());
        world.start_in("two", "second", Act::Hang).await;
        let world = world.killed();
        assert_eq!(world.ended().await, Ok(103));
        assert_eq!(world.script.names(), ["first", "second", "second"]);
    });
}

#[test]
fn a_loop_may_use_a_name_again() {
    run(async {
        let world = World::new(Programs::default().with("loop", async |ctx, script| {
            let mut sum = 0;
            for _ in 0..3 {
                sum += script.step(&ctx, "poll").await?;
                ctx.sleep("pause", Duration::from_mins(1)).await?;
            }
            Ok(sum)
        }));
        world.start("loop").await;
        assert_eq!(world.ended().await, Ok(6));
        let names: Vec<_> = world
            .history()
            .await
            .into_iter()
            .map(|step| (step.name, step.occurrence))
            .collect();
        let polls = (1..4).flat_map(|use_| [("poll".to_owned(), use_), ("pause".to_owned(), use_)]);
        assert_eq!(names, polls.collect::<Vec<_>>());
        let second = world.workflows().output("a", ("poll", 2)).await.unwrap();
        assert_eq!(second.as_deref(), Some("2"));
        let keys: std::collections::BTreeSet<_> = world
            .script
            .calls()
            .into_iter()
            .map(|call| call.key)
            .collect();
        assert_eq!(keys.len(), 3);
    });
}

#[test]
fn an_instance_that_sleeps_needs_no_memory_and_wakes_at_its_time() {
    run(async {
        let world = World::new(Programs::default().with("sleeper", async |ctx, script| {
            script.step(&ctx, "before").await?;
            let begun = ctx.now();
            ctx.sleep("night", Duration::from_hours(8)).await?;
            ctx.sleep_until("morning", begun + 9 * 3_600_000).await?;
            script.step(&ctx, "after").await?;
            Ok(ctx.now() - begun)
        }));
        world.start("sleeper").await;
        world.until_step(1, StepState::Waiting).await;
        world.pass(Duration::from_secs(15)).await;
        world.until(0, async || world.node.stats().resident).await;
        // The object is not called.
        world.clock.advance(Duration::from_hours(8));
        world
            .until(1, async || usize::from(world.node.stats().resident > 0))
            .await;
        let world = world.killed();
        world.pass(Duration::from_secs(30)).await;
        assert_eq!(world.script.of("after").len(), 0);
        world.clock.advance(Duration::from_hours(1));
        world.until_called("after", 1).await;
        let time = world.ended().await.unwrap();
        assert!(time >= 9 * 3_600_000, "{time}");
    });
}

#[test]
fn a_sleep_does_not_end_early_when_it_is_inspected() {
    run(async {
        let world = World::new(Programs::default().with("sleeper", async |ctx, _| {
            ctx.sleep("nap", Duration::from_mins(1)).await?;
            Ok(1)
        }));
        world.start("sleeper").await;
        let naps = async || world.history().await.first().and_then(|step| step.due);
        world.until(true, async || naps().await.is_some()).await;
        let due = naps().await.unwrap();
        let left = due - world.now();
        let left = Duration::from_millis(left.cast_unsigned());
        let moment = Duration::from_millis(500);
        world.clock.advance(left.checked_sub(moment).unwrap());
        // Sending an event has the instance look at what is due.
        let workflows = world.workflows();
        for _ in 0..5 {
            workflows.send_event("a", "look", &()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(world.history().await[0].state, StepState::Waiting);
        world.clock.advance(moment);
        assert_eq!(world.ended().await, Ok(1));
    });
}

fn of_version(number: i64) -> ListedVersion {
    ListedVersion {
        timeline: String::new(),
        number,
    }
}

#[test]
fn a_directory_believes_what_is_newest_whatever_it_hears_last() {
    run(async {
        let world = World::new(two_steps());
        let directory = world.node.env().object::<WorkflowDirectory>();
        let directory = directory.get_by_name(Test::NAME);
        for (status, version) in [(Status::Completed, 2), (Status::Running, 1)] {
            let listed = Listed {
                id: "a".to_owned(),
                status,
                error: None,
                created_at: 0,
                updated_at: version,
            };
            directory
                .list_instance(listed, of_version(version))
                .await
                .unwrap();
        }
        let page = world.workflows().list(Filter::default()).await.unwrap();
        assert_eq!(page.instances[0].status, Status::Completed);
    });
}

#[test]
fn results_that_are_too_large_fail_their_step_and_say_so() {
    run(async {
        let world = World::new(Programs::default().with("large", async |ctx, _| {
            ctx.step("large", policy(), async |_| {
                Ok("x".repeat(limits::MAX_RESULT_BYTES))
            })
            .await?;
            Ok(1)
        }));
        world.start("large").await;
        let failure = world.ended().await.unwrap_err();
        assert!(
            failure.message().contains("1048578 bytes; at most 1048576"),
            "{failure}"
        );
    });
}

#[test]
fn steps_without_number_end_with_an_error() {
    run(async {
        let world = World::without_rehearsals(Programs::default().with("many", async |ctx, _| {
            let mut sum = 0;
            loop {
                match ctx.step("one", policy(), async |_| Ok(1)).await {
                    Ok(one) => sum += one,
                    Err(failure) => {
                        assert!(
                            failure
                                .message()
                                .contains("move some of its work to children")
                        );
                        return Ok(sum);
                    }
                }
            }
        }));
        world.start("many").await;
        assert_eq!(
            world.ended().await,
            Ok(limits::MAX_STEPS.cast_signed() as i64)
        );
    });
}

#[test]
fn who_waits_for_an_instance_is_told_when_it_ends() {
    run(async {
        let world = World::new(two_steps());
        world.script.say("second", [Act::Hold]);
        world.start("two").await;
        let workflows = world.workflows();
        let waiting = tokio::spawn(async move { workflows.wait("a", limits::MAX_PATIENCE).await });
        world.until_called("second", 1).await;
        assert_eq!(world.workflows().result("a").await.unwrap(), Ended::No);
        world.script.release();
        assert_eq!(waiting.await.unwrap().unwrap(), Ended::Completed(102));
    });
}

#[test]
fn instances_are_listed_and_forgotten_when_they_were_kept_long_enough() {
    run(async {
        let world = World::new(two_steps().with("waits", async |ctx, _| {
            ctx.wait_for_event("never", Duration::from_hours(24 * 365))
                .await
        }));
        let workflows = world.workflows();
        for (id, program) in [("a", "two"), ("b", "waits"), ("c", "two")] {
            workflows.start(id, &program.into()).await.unwrap();
            let listed = workflows.list(Filter::default()).await.unwrap().instances;
            assert_eq!(listed[0].id, id);
            world.clock.advance(Duration::from_millis(1));
        }
        // The clock stands still: to let time pass is to pass the year for which one waits.
        world.until_status_of("a", Status::Completed).await;
        world.until_status_of("c", Status::Completed).await;
        let listed = async |status, limit, after| {
            let filter = Filter::default().status(status).after(after).limit(limit);
            let page = workflows.list(filter).await.unwrap();
            let ids: Vec<String> = page.instances.into_iter().map(|listed| listed.id).collect();
            (ids, page.next)
        };
        world
            .until(vec!["c".to_owned(), "a".into()], async || {
                listed(Some(Status::Completed), 0, None).await.0
            })
            .await;
        assert_eq!(listed(Some(Status::Running), 0, None).await.0, ["b"]);
        let (first, next) = listed(None, 2, None).await;
        assert_eq!(first, ["c", "b"]);
        assert_eq!(listed(None, 2, next).await, (vec!["a".into()], None));

        world.pass(Duration::from_secs(2)).await;
        world.clock.advance(Duration::from_hours(24 * 30));
        world
            .until(vec!["b".to_owned()], async || listed(None, 0, None).await.0)
            .await;
        world
            .until(true, async || {
                matches!(
                    workflows.status("a").await,
                    Err(WorkflowError::NotFound { .. })
                )
            })
            .await;
        // The id is free again, and its keys are new.
        let before = world.script.of("first")[0].key.clone();
        workflows.start("a", &"two".into()).await.unwrap();
        world.until_status(Status::Completed).await;
        assert_ne!(world.script.of("first").last().unwrap().key, before);
    });
}

const CHARGES: [&str; 3] = ["charge Bob (2)", "charge Bob", "charge Bob"];

/// No name that a program gives is the name of another step's second use.
#[test]
fn a_name_with_a_number_is_not_the_second_use_of_the_name_without() {
    run(async {
        let charges = Programs::default()
            .with("at once", async |ctx, script| {
                let (a, b, c) = tokio::join!(
                    script.step(&ctx, CHARGES[0]),
                    script.step(&ctx, CHARGES[1]),
                    script.step(&ctx, CHARGES[2])
                );
                Ok(a? + b? + c?)
            })
            .with("in turn", async |ctx, script| {
                let mut sum = 0;
                for name in CHARGES {
                    sum += script.step(&ctx, name).await?;
                }
                Ok(sum)
            });
        for program in ["at once", "in turn"] {
            let world = World::new(charges.clone());
            world.start(program).await;
            world.pass(Duration::from_secs(5)).await;
            assert_eq!(world.record().await.status, Status::Completed, "{program}");
            let calls = world.script.calls();
            let keys: std::collections::BTreeSet<_> = calls.iter().map(|call| &call.key).collect();
            assert_eq!((calls.len(), keys.len()), (3, 3), "{calls:?}");
        }
    });
}

#[test]
fn instances_are_found_by_status_and_by_start_or_change_time() {
    run(async {
        let world = World::new(two_steps());
        let directory = world.node.env().object::<WorkflowDirectory>();
        let directory = directory.get_by_name(Test::NAME);
        for number in 0..10 {
            let listed = Listed {
                id: format!("{number}"),
                status: if number % 2 == 0 {
                    Status::Failed
                } else {
                    Status::Running
                },
                error: None,
                created_at: 100 + number,
                updated_at: 200 - number,
            };
            directory
                .list_instance(listed, of_version(1))
                .await
                .unwrap();
        }
        let found = async |filter: Filter| {
            let (mut ids, mut filter) = (String::new(), filter.limit(2));
            loop {
                let page = world.workflows().list(filter.clone()).await.unwrap();
                assert!(page.instances.len() <= 2);
                ids.extend(page.instances.into_iter().map(|listed| listed.id));
                match page.next {
                    Some(next) => filter.after = Some(next),
                    None => return ids,
                }
            }
        };
        let started = Filter::default().from(102).before(107);
        assert_eq!(found(started.clone()).await, "65432");
        let failed = Some(Status::Failed);
        assert_eq!(found(started.status(failed)).await, "642");
        let changed = Filter::default().by(ListBy::Changed).before(198);
        assert_eq!(found(changed.clone()).await, "3456789");
        let failed = changed.status(failed).from(194);
        assert_eq!(found(failed).await, "46");
    });
}

#[test]
fn throttled_attempts_do_not_count() {
    run(async {
        let world = World::new(Programs::default().with("p", async |ctx, script| {
            script.step_with(&ctx, "s", policy().attempts(3)).await
        }));
        let later = Failure::throttled("later", Some(Duration::from_secs(5)));
        let fails = Failure::temporary("no");
        let acts = [&later, &later, &fails, &later, &later, &fails, &later];
        world
            .script
            .say("s", acts.map(|failure| Act::Fail(failure.clone())));
        world.start("p").await;
        world.ended().await.unwrap();
        assert_eq!(world.script.of("s").len(), 8);
        let step = world.history().await.remove(0);
        assert_eq!(step.attempts, 8);
    });
}

#[test]
fn a_step_that_is_throttled_for_a_week_has_failed() {
    run(async {
        let world = World::new(Programs::default().with("p", async |ctx, script| {
            // One that fails is not throttled at that time, and its week begins anew.
            script
                .step_with(&ctx, "patient", policy().attempts(2))
                .await?;
            script.step_with(&ctx, "always", policy().attempts(2)).await
        }));
        let day = Duration::from_hours(24);
        let later = Act::Fail(Failure::throttled("later", Some(day)));
        let mut acts = vec![later.clone(); 4];
        acts.push(Act::Fail(Failure::temporary("no")));
        acts.extend(vec![later.clone(); 4]);
        world.script.say("patient", acts);
        world.script.say("always", vec![later; 30]);
        world.start("p").await;
        let failure = world.ended().await.unwrap_err();
        assert!(
            failure
                .message()
                .starts_with("it was throttled for 7.0 days; the last response: later"),
            "{failure}"
        );
        assert_eq!(world.script.of("patient").len(), 10);
        // A pause is a day, and longer by up to a quarter.
        let attempts = world.script.of("always").len();
        assert!((7..=8).contains(&attempts), "{attempts}");
        let history = world.history().await;
        let (begun, ended) = (history[0].finished_at, history[1].finished_at);
        let took = ended.unwrap() - begun.unwrap();
        let days = took / 24 / 3_600_000;
        assert!((7..=8).contains(&days), "{took} ms");
    });
}

#[test]
fn a_sleep_beside_a_step_is_its_deadline() {
    run(async {
        let names = ["well", "fails", "throttled", "hangs"];
        let mut programs = Programs::default();
        for name in names {
            programs = programs.with(name, move |ctx: Context, script: Script| async move {
                let policy = policy().timeout(Duration::from_hours(1));
                tokio::select! {
                    biased;
                    done = script.step_with(&ctx, name, policy) => done.map(|_| 1),
                    late = ctx.sleep("deadline", Duration::from_hours(1)) => late.map(|()| 100),
                }
            });
        }
        let world = World::new(programs);
        let busy = Failure::throttled("later", Some(Duration::from_mins(9)));
        let fails = Act::Fail(Failure::temporary("no"));
        world.script.say("fails", vec![fails; 1_000]);
        world.script.say("throttled", vec![Act::Fail(busy); 1_000]);
        world.script.say("hangs", vec![Act::Hang; 1_000]);
        for name in names {
            let started = world.workflows().start(name, &name.to_owned()).await;
            assert!(!started.unwrap().duplicate);
            world.until_called(name, 1).await;
        }
        // The deadline is on disk.
        let world = world.killed();
        world.pass(Duration::from_secs(5)).await;
        for _ in 0..5 {
            world.clock.advance(Duration::from_secs(10 * 60 - 10));
            world.pass(Duration::from_secs(10)).await;
        }
        let status = async |name| world.workflows().status(name).await.unwrap().status;
        assert_eq!(status("well").await, Status::Completed);
        for name in &names[1..] {
            assert_eq!(status(name).await, Status::Running, "{name}");
        }
        world.clock.advance(Duration::from_mins(10));
        assert_eq!(world.ended_of("well").await, Ok(1));
        for name in &names[1..] {
            assert_eq!(world.ended_of(name).await, Ok(100), "{name}");
        }
        let calls = world.script.calls().len();
        world.pass(Duration::from_mins(1)).await;
        assert_eq!(world.script.calls().len(), calls);
    });
}
