//! What restores and forks of instances mean.

use std::time::Duration;

use abide::{
    AnyStub,
    prelude::*,
    workflow::{Context, Filter, Status, WorkflowDirectory, WorkflowInstance},
};

use crate::workflow::support::{Act, Programs, Script, Test, World, run};

fn family() -> Programs {
    Programs::default()
        .with("parent", async |ctx: Context, script: Script| {
            let result = ctx.child::<Test>("one", "child".to_owned()).await?;
            script.step(&ctx, "after").await?;
            Ok(result)
        })
        .with("child", async |ctx: Context, script: Script| {
            script.step(&ctx, "work").await?;
            ctx.sleep("rest", Duration::from_mins(10)).await?;
            Ok(10)
        })
}

fn object(world: &World, id: &str) -> AnyStub {
    let instances = world.node.env().object::<WorkflowInstance>();
    let name = format!("{}/{id}", <Test as abide::workflow::Workflow>::NAME);
    instances.get_by_name(&name).untyped().clone()
}

async fn bookmark(world: &World, id: &str) -> Bookmark {
    world.node.bookmark(&object(world, id), None).await.unwrap()
}

async fn restore(world: &World, id: &str, to: Bookmark) -> Bookmark {
    world.node.restore(&object(world, id), to).await.unwrap()
}

#[test]
fn a_restored_parent_learns_the_result_of_a_child_that_ended() {
    run(async {
        let world = World::new(family());
        world.start("parent").await;
        world.until_called("work", 1).await;
        let then = bookmark(&world, "a").await;
        assert_eq!(world.ended().await, Ok(10));
        restore(&world, "a", then).await;
        let running = world.record().await.status;
        assert!(matches!(running, Status::Running | Status::Completed));
        assert_eq!(world.ended().await, Ok(10));
        assert_eq!(
            world.script.of("work").len(),
            1,
            "the child did not run again"
        );
        let after = world.script.of("after");
        assert_eq!(after.len(), 2);
        assert_eq!(after[0].key, after[1].key);
    });
}

#[test]
fn a_restored_child_runs_again_and_its_second_result_is_ignored() {
    run(async {
        let world = World::new(family());
        world.start("parent").await;
        world.until_called("work", 1).await;
        let then = bookmark(&world, "a/one").await;
        assert_eq!(world.ended().await, Ok(10));
        restore(&world, "a/one", then).await;
        assert_eq!(world.ended_of("a/one").await, Ok(10));
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(world.record().await.status, Status::Completed);
        assert_eq!(world.script.of("after").len(), 1);
    });
}

#[test]
fn a_parent_restored_to_before_its_child_learns_of_its_end() {
    run(async {
        let world = World::new(
            Programs::default()
                .with("child", async |ctx, script| script.step(&ctx, "work").await)
                .with("parent", async |ctx: Context, script: Script| {
                    script.step(&ctx, "before").await?;
                    ctx.child::<Test>("one", "child".to_owned()).await
                }),
        );
        world.start_in("parent", "before", Act::Hold).await;
        let then = bookmark(&world, "a").await;
        world.script.release();
        let result = world.ended().await;
        restore(&world, "a", then).await;
        assert_eq!(world.ended().await, result);
        assert_eq!(world.script.of("work").len(), 1);
    });
}

#[test]
fn the_directory_shows_the_status_of_a_restored_instance() {
    run(async {
        let world = World::new(family());
        world.start("child").await;
        world.until_called("work", 1).await;
        let then = bookmark(&world, "a").await;
        // Each change has a higher version, and the restored state a low one.
        for _ in 0..3 {
            world.workflows().pause("a").await.unwrap();
            world.workflows().resume("a").await.unwrap();
        }
        world.workflows().cancel("a", "by mistake").await.unwrap();
        world.until_status(Status::Canceled).await;
        let listed = async || {
            let page = world.workflows().list(Filter::default()).await.unwrap();
            page.instances[0].status
        };
        world.until(Status::Canceled, listed).await;
        restore(&world, "a", then).await;
        world.until(Status::Running, listed).await;
        assert_eq!(world.ended().await, Ok(10));
        world.until(Status::Completed, listed).await;
    });
}

#[test]
fn a_fork_of_an_instance_runs_nothing() {
    run(async {
        let world = World::new(family());
        world.start("child").await;
        world.until_called("work", 1).await;
        let then = bookmark(&world, "a").await;
        let original = object(&world, "a");
        let node = &world.node;
        let name = format!("{}/copy", <Test as abide::workflow::Workflow>::NAME);
        node.fork(&original, then, &name).await.unwrap();
        let copy = object(&world, "copy");
        let workflows = world.workflows();
        assert_eq!(
            workflows.status("copy").await.unwrap().status,
            Status::Running
        );
        assert_eq!(world.ended().await, Ok(10));
        world.clock.advance(Duration::from_mins(20));
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(
            workflows.status("copy").await.unwrap().status,
            Status::Running
        );
        node.activate(&copy, Activation::Fresh).await.unwrap();
        let status = workflows.status("copy").await.unwrap();
        assert_eq!(status.status, Status::Canceled);
        world.clock.advance(Duration::from_mins(20));
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(world.script.of("work").len(), 1);
        let page = workflows.list(Filter::default()).await.unwrap();
        assert_eq!(page.instances.len(), 1, "{:?}", page.instances);
        assert_eq!(page.instances[0].status, Status::Completed);
    });
}

/// The status of each instance, as the directory shows it.
async fn listed(world: &World) -> Vec<(String, Status)> {
    let page = world.workflows().list(Filter::default()).await.unwrap();
    let instances = page.instances.into_iter();
    let mut listed: Vec<_> = instances.map(|found| (found.id, found.status)).collect();
    listed.sort_by(|(one, _), (two, _)| one.cmp(two));
    listed
}

#[test]
fn a_restored_directory_shows_what_its_instances_are_now() {
    run(async {
        let world = World::new(family());
        let workflows = world.workflows();
        let count = 70;
        let id = |number: i32| format!("{number:02}");
        for number in 0..count {
            let input = "child".to_owned();
            workflows.start(&id(number), &input).await.unwrap();
        }
        let all = |status| move |number| (id(number), status);
        let running: Vec<_> = (0..count).map(all(Status::Running)).collect();
        world.until(running, || listed(&world)).await;
        let name = <Test as abide::workflow::Workflow>::NAME;
        let directory = world.node.env().object::<WorkflowDirectory>();
        let directory = directory.get_by_name(name).untyped().clone();
        let then = world.node.bookmark(&directory, None).await.unwrap();
        // The first is canceled, and no longer kept when the others end.
        workflows.cancel("00", "by mistake").await.unwrap();
        world.until_status_of("00", Status::Canceled).await;
        world.clock.advance(Duration::from_hours(24 * 30));
        let completed: Vec<_> = (1..count).map(all(Status::Completed)).collect();
        world
            .until_meanwhile(completed.clone(), || listed(&world))
            .await;
        world.node.restore(&directory, then).await.unwrap();
        // A crash does not stop it.
        let world = world.killed();
        world.until_meanwhile(completed, || listed(&world)).await;
        for number in 1..count {
            assert_eq!(world.ended_of(&id(number)).await, Ok(10));
        }
    });
}
