//! Waiting for events.

use std::time::Duration;

use abide::limits::workflow as limits;
use abide::workflow::{EventKey, Status, StepState, WorkflowError};

use crate::workflow::support::{Act, Programs, World, run};

const HOUR: Duration = Duration::from_hours(1);

fn two_events() -> Programs {
    Programs::default().with("two", async |ctx, script| {
        script.step(&ctx, "before").await?;
        let first: i64 = ctx.wait_for_event("number", HOUR).await?;
        let second: i64 = ctx.wait_for_event("number", HOUR).await?;
        Ok(first * 10 + second)
    })
}

#[test]
fn events_before_and_after_the_wait_are_taken_in_order() {
    run(async {
        let world = World::new(two_events());
        let workflows = world.workflows();
        world.start_in("two", "before", Act::Hold).await;
        workflows.send_event("a", "number", &4).await.unwrap();
        workflows.send_event("a", "other", &9).await.unwrap();
        world.script.release();
        world.until_step(2, StepState::Waiting).await;
        // It waits without being in memory, and across a kill.
        world.pass(Duration::from_secs(15)).await;
        world.until(0, async || world.node.stats().resident).await;
        let world = world.killed();
        world
            .workflows()
            .send_event("a", "number", &2)
            .await
            .unwrap();
        world.until_status(Status::Completed).await;
        assert_eq!(world.ended().await, Ok(42));
        assert_eq!(world.script.calls().len(), 1);
    });
}

#[test]
fn events_that_wait_are_taken_one_by_one() {
    run(async {
        let world = World::new(two_events());
        let workflows = world.workflows();
        world.start_in("two", "before", Act::Hold).await;
        workflows.send_event("a", "number", &4).await.unwrap();
        workflows.send_event("a", "number", &2).await.unwrap();
        world.script.release();
        assert_eq!(world.ended().await, Ok(42));
    });
}

#[test]
fn an_event_that_does_not_come_is_a_timeout_at_its_time() {
    run(async {
        let world = World::new(Programs::default().with("late", async |ctx, _| {
            let begun = ctx.now();
            match ctx.wait_for_event::<i64>("number", HOUR).await {
                Err(late) if late.is_timeout() => Ok(ctx.now() - begun),
                other => other,
            }
        }));
        world.start("late").await;
        world.pass(Duration::from_secs(15)).await;
        world.clock.advance(HOUR);
        let waited = world.ended().await.unwrap();
        assert!((3_600_000..3_700_000).contains(&waited), "{waited}");
        let refused = world.workflows().send_event("a", "number", &1).await;
        assert!(matches!(
            refused,
            Err(WorkflowError::Ended {
                status: Status::Completed,
                ..
            })
        ));
    });
}

#[test]
fn an_event_with_a_key_counts_once() {
    run(async {
        let world = World::new(two_events());
        let workflows = world.workflows();
        world.start("two").await;
        for _ in 0..3 {
            workflows
                .send_event_once("a", EventKey("evt_1"), "number", &4)
                .await
                .unwrap();
        }
        world.pass(Duration::from_secs(3)).await;
        assert_eq!(world.record().await.status, Status::Running);
        workflows
            .send_event_once("a", EventKey("evt_2"), "number", &2)
            .await
            .unwrap();
        assert_eq!(world.ended().await, Ok(42));
    });
}

#[test]
fn an_event_of_another_form_is_a_failure_that_the_workflow_can_answer() {
    run(async {
        let world = World::new(two_events());
        world.start("two").await;
        world
            .workflows()
            .send_event("a", "number", "four")
            .await
            .unwrap();
        let failure = world.ended().await.unwrap_err();
        assert!(
            failure
                .message()
                .contains("event `number` does not match its type"),
            "{failure}"
        );
    });
}

#[test]
fn too_many_events_are_refused() {
    run(async {
        let world = World::new(two_events());
        let workflows = world.workflows();
        world.start("two").await;
        for _ in 0..limits::MAX_EVENTS {
            workflows.send_event("a", "not awaited", &()).await.unwrap();
        }
        let refused = workflows.send_event("a", "not awaited", &()).await;
        assert!(matches!(refused, Err(WorkflowError::TooManyEvents { .. })));
        let large = "x".repeat(limits::MAX_RESULT_BYTES);
        let refused = workflows.send_event("a", "large", &large).await;
        assert!(matches!(refused, Err(WorkflowError::Invalid(_))));
    });
}

#[test]
fn an_event_starts_the_instance_that_it_is_for_or_is_kept_for_it() {
    run(async {
        let world = World::new(two_events());
        let workflows = world.workflows();
        let send = async |payload: i64, key: &str| {
            let input = "two".to_owned();
            let sent =
                workflows.start_with_event_once("a", &input, EventKey(key), "number", &payload);
            sent.await
        };
        assert!(!send(4, "one").await.unwrap().duplicate);
        // However often it comes.
        send(4, "one").await.unwrap();
        let other = "whatever".to_owned();
        let kept = workflows.start_with_event("a", &other, "number", &2).await;
        assert!(kept.unwrap().duplicate);
        assert_eq!(world.ended().await, Ok(42));
        let late = send(1, "three").await;
        assert!(matches!(late, Err(WorkflowError::Ended { .. })));
        // What is refused starts nothing.
        let input = "two".to_owned();
        let refused = workflows.start_with_event("b", &input, "", &1).await;
        assert!(matches!(refused, Err(WorkflowError::Invalid(_))));
        let missing = workflows.status("b").await;
        assert!(matches!(missing, Err(WorkflowError::NotFound { .. })));
    });
}
