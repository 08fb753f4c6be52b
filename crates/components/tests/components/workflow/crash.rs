//! Power cuts at every change of the disk, and kills at random times.
//!
//! `ABIDE_WORKFLOW_SEEDS` says how many seeds, `ABIDE_WORKFLOW_FIRST_SEED` the first.

use std::{cell::Cell, collections::BTreeSet, time::Duration};

use abide::prelude::*;
use abide::workflow::{
    Context, EventKey, Failure, Filter, Status, StepRecord, StepState, WorkflowError,
};
use abide_harness::{Random, setting};

use crate::workflow::support::{Act, Call, Programs, Script, Test, World, run};

/// A workflow with everything in it.
fn everything() -> Programs {
    Programs::default()
        .with("all", async |ctx: Context, script: Script| {
            let first = script.step(&ctx, "first").await?;
            let (left, right) = tokio::join!(script.step(&ctx, "left"), async {
                ctx.sleep("nap", Duration::from_secs(3)).await?;
                script.step(&ctx, "right").await
            });
            let event = ctx
                .wait_for_event::<i64>("go", Duration::from_hours(1))
                .await?;
            let child = ctx.child::<Test>("child", "child".to_owned()).await?;
            let last = script.step(&ctx, "last").await?;
            Ok([first, left?, right?, event, child, last]
                .iter()
                .fold(0, |sum, value| sum * 1_000 + value))
        })
        .with("child", async |ctx: Context, script: Script| {
            let born = script.step(&ctx, "born").await?;
            ctx.sleep("grow", Duration::from_secs(2)).await?;
            Ok(born)
        })
}

/// Starts instance `a` and sends it its event, as a client that repeats what was not answered.
async fn ask(world: &World) -> Result<(), WorkflowError> {
    let workflows = world.workflows();
    workflows.start("a", &"all".into()).await?;
    workflows
        .send_event_once("a", EventKey("event 1"), "go", &7)
        .await
}

/// Lets time pass until the instance has ended; an error if the power is cut.
async fn end(world: &World) -> Result<i64, WorkflowError> {
    let ended = world.try_ended_of("a").await?;
    Ok(ended.unwrap())
}

/// What must hold of an instance that has a result: it was made of what is stored, and each part of that is what the step's
/// function gave once.
async fn check_result(world: &World, output: i64) {
    let history = world.history().await;
    let is_done = |step: &StepRecord| step.state == StepState::Done;
    assert!(history.iter().all(is_done), "{history:?}");
    let mut whole = 0;
    for name in ["first", "left", "right", "go", "child", "last"] {
        let value = world.workflows().output("a", name).await.unwrap().unwrap();
        let value: i64 = value.parse().unwrap();
        whole = whole * 1_000 + value;
        let calls = world.script.of(if name == "child" { "born" } else { name });
        let is_given = name == "go" || calls.iter().any(|call| call.value == value);
        assert!(is_given, "`{name}` is {value}: {calls:?}");
    }
    assert_eq!(output, whole);
}

/// What must also hold if the instance was not restarted, however often it was cut off.
async fn check(world: &World, output: i64) {
    check_result(world, output).await;
    for name in ["first", "left", "right", "born", "last"] {
        let calls = world.script.of(name);
        let key = |call: &Call| call.key == calls[0].key;
        assert!(calls.iter().all(key), "`{name}`: {calls:?}");
    }
    // An attempt that was begun counts, also if all else of it is gone.
    let mut begun = BTreeSet::new();
    for call in world.script.calls() {
        let is_new = begun.insert((call.key.clone(), call.number));
        assert!(is_new, "begun again: {call:?}");
    }
    // The directory comes to know.
    let filter = Filter::default().status(Status::Completed);
    let listed = async || {
        let page = world.workflows().list(filter.clone()).await.unwrap();
        let mut ids: Vec<String> = page.instances.into_iter().map(|listed| listed.id).collect();
        ids.sort();
        ids
    };
    for _ in 0..2_000 {
        if listed().await.len() == 2 {
            break;
        }
        world.clock.advance(Duration::from_millis(500));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(listed().await, ["a", "a/child"]);
}

/// Cuts the power after this many changes of the disk; true if all was over before.
async fn cut(change: u64) -> bool {
    let world = World::new(everything());
    world.workflows().list(Filter::default()).await.unwrap();
    world.disk.stop_at(world.disk.changes() + change);
    let over = match ask(&world).await {
        Ok(()) => end(&world).await.is_ok(),
        Err(_) => false,
    };
    let world = world.crashed(change);
    ask(&world).await.unwrap();
    let output = end(&world).await.unwrap();
    check(&world, output).await;
    over
}

#[test]
fn a_workflow_comes_to_its_end_wherever_the_power_was_cut() {
    let mut change = 0;
    let over = Cell::new(false);
    while !over.get() {
        run(async { over.set(cut(change).await) });
        change += 1;
    }
    println!("the power was cut at each of {change} changes of the disk");
    assert!(change > 30, "there were few places to cut: {change}");
}

/// A world whose steps fail, hang and panic.
fn troubled(random: &mut Random) -> World {
    let script = Script::default();
    for step in ["first", "left", "right", "born", "last"] {
        let acts = (0..random.below(3)).map(|_| match random.below(4) {
            0 => Act::Fail(Failure::temporary("busy")),
            1 => Act::Panic,
            2 => Act::Hang,
            _ => Act::Well,
        });
        script.say(step, acts.collect::<Vec<_>>());
    }
    World::scripted(script, everything())
}

/// Lets some time pass, unless the power is cut.
async fn some_time(world: &World, random: &mut Random) {
    for _ in 0..random.below(80) {
        if world.disk.has_stopped() {
            break;
        }
        let time = Duration::from_millis(u64::from(random.below(300)));
        world.clock.advance(time);
        tokio::time::sleep(Duration::from_micros(u64::from(random.below(500)))).await;
    }
}

/// What is found after a kill or a power cut.
fn cut_off(world: World, random: &mut Random, seed: u64) -> World {
    if world.disk.has_stopped() || random.below(2) == 0 {
        world.crashed(seed)
    } else {
        world.killed()
    }
}

/// Starts it, if it was not, and sends what it waits for.
async fn ask_again(world: &World) {
    let started = world.workflows().start("a", &"all".into()).await.unwrap();
    if !started.status.is_end() {
        let workflows = world.workflows();
        let sent = workflows.send_event_once("a", EventKey("event 1"), "go", &7);
        sent.await.unwrap();
    }
}

async fn killed(seed: u64) {
    let mut random = Random::new(seed + 1);
    let mut world = troubled(&mut random);
    for _ in 0..random.below(6) {
        if random.below(2) == 0 {
            let change = u64::from(random.below(60));
            world.disk.stop_at(world.disk.changes() + change);
        }
        if ask(&world).await.is_ok() {
            some_time(&world, &mut random).await;
        }
        world = cut_off(world, &mut random, seed);
    }
    ask_again(&world).await;
    let output = end(&world).await.unwrap();
    check(&world, output).await;
}

/// The same, with random pauses, resumes, cancels and restarts.
async fn meddled_with(seed: u64) {
    let mut random = Random::new(seed + 1);
    let mut world = troubled(&mut random);
    for _ in 0..random.below(12) {
        ask_again(&world).await;
        some_time(&world, &mut random).await;
        let workflows = world.workflows();
        // The request may be invalid now.
        let asked = match random.below(8) {
            0 | 1 => workflows.pause("a").await,
            2 | 3 => workflows.resume("a").await,
            4 => workflows.cancel("a", "meddling").await,
            _ => {
                let steps = ["first", "left", "nap", "right", "go", "child", "last"];
                let step = steps[random.below(7) as usize];
                workflows.restart_from("a", step).await
            }
        };
        if let Err(WorkflowError::Object(error)) = asked {
            panic!("{error}");
        }
        if random.below(3) == 0 {
            world = cut_off(world, &mut random, seed);
        }
    }
    ask_again(&world).await;
    let _ = world.workflows().resume("a").await;
    match world.ended().await {
        Ok(output) => check_result(&world, output).await,
        Err(failure) => {
            assert!(failure.is_canceled(), "{failure}");
            assert_eq!(world.record().await.status, Status::Canceled);
        }
    }
}

fn seeds() -> impl Iterator<Item = u64> {
    let first = setting("ABIDE_WORKFLOW_FIRST_SEED", 0);
    let seeds = setting("ABIDE_WORKFLOW_SEEDS", 8);
    (first..first + seeds).inspect(|seed| println!("seed {seed}"))
}

#[test]
fn a_workflow_comes_to_its_end_through_failures_kills_and_power_cuts() {
    seeds().for_each(|seed| run(killed(seed)));
}

#[test]
fn a_workflow_that_is_meddled_with_comes_to_an_end_that_fits_its_history() {
    seeds().for_each(|seed| run(meddled_with(seed)));
}

#[test]
fn a_step_in_flight_with_one_that_ends_the_process_has_not_failed() {
    run(async {
        let mut world = World::new(Programs::default().with(
            "p",
            async |ctx: Context, script: Script| {
                let few = || crate::workflow::support::policy().attempts(3);
                let good = script.step_with(&ctx, "good", few());
                let bad = script.step_with(&ctx, "bad", few());
                let (good, bad) = tokio::join!(good, bad);
                assert!(bad.is_err(), "it never ends");
                good
            },
        ));
        world.script.say("bad", vec![Act::Hang; 20]);
        // Its result is lost as well while the other runs.
        world.script.say("good", vec![Act::HangBeside("bad"); 20]);
        world.start("p").await;
        let mut crashes = 0;
        while world.record().await.status == Status::Running {
            world.pass(Duration::from_millis(500)).await;
            if world.script.of("bad").len() > crashes {
                crashes = world.script.of("bad").len();
                world = world.killed();
            }
        }
        world.ended().await.unwrap();
        assert!((3..=4).contains(&crashes), "{crashes}");
    });
}
