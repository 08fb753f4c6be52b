//! Rebuilding a read model from the objects.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use abide::projection::{ReadModel, sources};
use abide::{ErrorKind, prelude::*};

use crate::projection::support::{Bank, Mood, World, row, run};

/// How many objects there are.
const OBJECTS: usize = 40;

#[test]
fn a_read_model_is_rebuilt_from_all_objects_and_says_how_far_it_is() {
    run(async {
        assert_eq!(fault(Mood::Well, OBJECTS).await, None);
    });
}

/// The test is tested: it misses an object that is not asked, and sees what is not forgotten.
#[test]
fn a_rebuild_that_leaves_something_out_or_behind_is_found() {
    run(async {
        let left_out = fault(Mood::Well, OBJECTS - 1).await;
        assert_eq!(left_out.as_deref(), Some("39 rows"));
        let left_behind = fault(Mood::Clinging, OBJECTS).await;
        assert_eq!(left_behind.as_deref(), Some("41 rows"));
    });
}

/// What is wrong with a read model that was rebuilt from this many of the objects, in a mood.
async fn fault(mood: Mood, asked: usize) -> Option<String> {
    let world = World::new();
    let names: Vec<String> = (0..OBJECTS).map(|number| format!("{number:02}")).collect();
    for name in &names {
        world.deposit(name, 3).await;
        world.deposit(name, 4).await;
    }
    let wanted: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 7)).collect();
    world.until_balances(&wanted).await;
    // What no object knows of is gone then.
    world.model.apply(vec![row("gone", 1, 1)]).await.unwrap();
    world.model.set(mood);
    let env = world.node.env();
    let banks = env.object::<Bank>();
    let ids = sources(&world.node, banks.untyped()).unwrap();
    assert_eq!(ids.len(), OBJECTS);
    let ids = ids.into_iter().take(asked);
    let shares = RefCell::new(Vec::new());
    let ask = async |id: ObjectId| banks.get(id).feed_again().await;
    let rebuild = world
        .projection
        .rebuild(env, &world.model, ids, ask, |progress| {
            shares.borrow_mut().push(progress.share());
        });
    // It waits by the node's clock.
    let done = tokio::select! {
        done = rebuild => done.unwrap(),
        () = keep_moving(&world) => unreachable!(),
    };
    assert_eq!((done.sources, done.asked, done.failed), (asked, asked, 0));
    let shares = shares.into_inner();
    assert_eq!((shares[0], shares[shares.len() - 1]), (0.0, 1.0));
    assert!(shares.is_sorted() && shares.len() > asked, "{shares:?}");
    // It has waited for the read model.
    let rows = world.balances().await.len();
    (rows != OBJECTS).then(|| format!("{rows} rows"))
}

async fn keep_moving(world: &World) {
    loop {
        world.clock.advance(Duration::from_millis(5));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_failing_source_is_reported_and_others_are_rebuilt() {
    run(async {
        let world = World::new();
        world.deposit("ada", 1).await;
        world.deposit("bob", 2).await;
        let env = world.node.env();
        let banks = env.object::<Bank>();
        let ask = async |name| banks.get_by_name(name).feed_again().await;
        let names = ["ada", "gone", "bob"];
        let rebuild = world
            .projection
            .rebuild(env, &world.model, names, ask, |_| {});
        let done = tokio::select! {
            done = rebuild => done.unwrap(),
            () = keep_moving(&world) => unreachable!(),
        };
        assert_eq!((done.asked, done.failed), (2, 1));
        assert_eq!(done.failures, [(1, "there is no account".to_owned())]);
        world.until_balances(&[("ada", 1), ("bob", 2)]).await;
    });
}

#[test]
fn a_source_that_is_too_busy_is_asked_again() {
    run(async {
        let world = World::new();
        world.deposit("ada", 1).await;
        let env = world.node.env();
        let banks = env.object::<Bank>();
        let refusals = Cell::new(3);
        let ask = async |name| {
            if refusals.get() > 0 {
                refusals.set(refusals.get() - 1);
                return Err(Error::with_kind(ErrorKind::Overloaded, "too many requests"));
            }
            banks.get_by_name(name).feed_again().await
        };
        let rebuild = world
            .projection
            .rebuild(env, &world.model, ["ada"], ask, |_| {});
        let done = tokio::select! {
            done = rebuild => done.unwrap(),
            () = keep_moving(&world) => unreachable!(),
        };
        assert_eq!((done.asked, done.failed, refusals.get()), (1, 0, 0));
        world.until_balances(&[("ada", 1)]).await;
    });
}
