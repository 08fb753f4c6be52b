//! Instances that continue as new.

use std::{collections::BTreeSet, time::Duration};

use abide::limits::workflow as limits;
use abide::workflow::{Context, Failure, Status, Workflow};

use crate::workflow::support::{Act, Programs, Script, Test, World, run};

/// Takes events forever, two in each history, until one is 0; the number of histories is in the input.
fn ledger() -> Programs {
    Programs::default()
        .with("0", async |ctx, script| turn(ctx, script, 0).await)
        .with("1", async |ctx, script| turn(ctx, script, 1).await)
        .with("2", async |ctx, script| turn(ctx, script, 2).await)
        .with("parent", async |ctx: Context, _| {
            ctx.child::<Test>("child", "0".to_owned()).await
        })
}

async fn turn(ctx: Context, script: Script, number: i64) -> Result<i64, Failure> {
    for _ in 0..2 {
        let event: i64 = ctx
            .wait_for_event("entry", Duration::from_hours(1_000))
            .await?;
        if event == 0 {
            return Ok(number);
        }
        script.step(&ctx, "book").await?;
    }
    assert_eq!(ctx.history_len(), 4);
    ctx.continue_as_new::<Test>(&(number + 1).to_string()).await
}

#[test]
fn an_instance_continues_with_an_empty_history_and_the_events_that_wait() {
    run(async {
        let world = World::new(ledger());
        let workflows = world.workflows();
        world.start("0").await;
        for entry in [7, 7, 7, 7, 7] {
            workflows.send_event("a", "entry", &entry).await.unwrap();
        }
        world.until_called("book", 5).await;
        world.until(3, async || world.record().await.run).await;
        let world = world.killed();
        assert!(
            world.history().await.len() <= 3,
            "{:?}",
            world.history().await
        );
        // Its start is known although its input is another now.
        let again = world.workflows().start("a", &"0".into()).await.unwrap();
        assert!(again.duplicate);
        world
            .workflows()
            .send_event("a", "entry", &0)
            .await
            .unwrap();
        assert_eq!(world.ended().await, Ok(2));
        let calls = world.script.calls();
        let keys: BTreeSet<_> = calls.iter().map(|call| &call.key).collect();
        assert_eq!((calls.len(), keys.len()), (5, 5), "{calls:?}");
    });
}

#[test]
fn a_parent_waits_for_a_child_that_continues_as_new() {
    run(async {
        let world = World::new(ledger());
        world.start("parent").await;
        let workflows = world.workflows();
        world
            .until(true, async || workflows.status("a/child").await.is_ok())
            .await;
        for entry in [7, 7, 0] {
            workflows
                .send_event("a/child", "entry", &entry)
                .await
                .unwrap();
        }
        assert_eq!(world.ended().await, Ok(1));
    });
}

#[test]
fn an_instance_that_is_canceled_does_not_continue_as_new() {
    run(async {
        let world = World::new(Programs::default().with(
            "p",
            async |ctx: Context, script: Script| {
                let held = script.step(&ctx, "held").await;
                if held.is_err_and(|failure| failure.is_canceled()) {
                    return ctx.continue_as_new::<Test>(&"p".to_owned()).await;
                }
                Ok(0)
            },
        ));
        world.start_in("p", "held", Act::UntilCanceled).await;
        world.workflows().cancel("a", "enough").await.unwrap();
        world.until_status(Status::Canceled).await;
    });
}

/// More steps than a history may have.
struct Many;

impl Workflow for Many {
    const NAME: &'static str = "many";
    type Input = usize;
    type Output = usize;

    async fn run(&self, ctx: Context, done: usize) -> Result<usize, Failure> {
        let mut done = done;
        while done < limits::MAX_STEPS * 5 / 4 {
            ctx.version("a change", 0..=1).await?;
            ctx.sleep("moment", Duration::ZERO).await?;
            done += 1;
            if ctx.history_len() == 1_000 {
                return ctx.continue_as_new::<Self>(&done).await;
            }
        }
        Ok(done)
    }
}

#[test]
fn an_instance_that_continues_as_new_has_steps_without_number() {
    run(async {
        use abide::Host;
        use abide::workflow::{self, Ended, WorkflowOptions, WorkflowRegistry, Workflows};
        let registry = WorkflowRegistry::new().with(Many);
        let host = workflow::install(Host::open_in_memory(), registry, WorkflowOptions::default());
        let host = host.start().await.unwrap();
        let workflows = Workflows::<Many>::new(host.env());
        workflows.start("a", &0).await.unwrap();
        let ended = workflows.wait("a", Duration::from_mins(2)).await.unwrap();
        assert_eq!(ended, Ended::Completed(limits::MAX_STEPS * 5 / 4));
        assert!(workflows.status("a").await.unwrap().run > 10);
        host.shutdown().await.unwrap();
    });
}
