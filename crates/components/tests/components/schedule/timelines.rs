//! What restores and forks mean to timers.

use std::{collections::BTreeSet, time::Duration};

use abide::{prelude::*, schedule::Spec};

use crate::schedule::support::{Background, World, plain, run, secs};

fn background(world: &World, name: &str) -> Stub<Background> {
    world.node.env().object::<Background>().get_by_name(name)
}

async fn effects(world: &World, name: &str) -> usize {
    let effects = background(world, name).effects().await;
    effects.unwrap().len()
}

/// The keys under which a timer went off.
fn keys(world: &World, timer: &str) -> BTreeSet<String> {
    let calls = world.calls.all().into_iter();
    calls
        .filter(|call| call.timer == timer)
        .map(|call| call.key)
        .collect()
}

#[test]
fn timers_of_a_fork_do_not_go_off() {
    run(async {
        let world = World::new(plain());
        let at = world.now() + 60_000;
        world
            .set_in_background("charge", Spec::once("charge", at))
            .await;
        let original = world.background();
        let (node, stub) = (&world.node, original.untyped());
        let now = node.bookmark(stub, None).await.unwrap();
        for name in ["fresh", "continued"] {
            node.fork(stub, now, name).await.unwrap();
            // An operator looks at it, and the program sets another timer.
            let spec = Spec::once("own", at + 60_000);
            let set = background(&world, name).upsert("own".into(), spec);
            set.await.unwrap();
        }
        world.pass(Duration::from_mins(5), secs(10)).await;
        assert_eq!(effects(&world, "ada").await, 1);
        for name in ["fresh", "continued"] {
            assert_eq!(effects(&world, name).await, 0, "{name}");
        }
        let (fresh, continued) = (background(&world, "fresh"), background(&world, "continued"));
        node.activate(fresh.untyped(), Activation::Fresh)
            .await
            .unwrap();
        node.activate(continued.untyped(), Activation::Continue)
            .await
            .unwrap();
        world.pass(Duration::from_mins(1), secs(10)).await;
        assert_eq!(effects(&world, "continued").await, 2, "late, as timers are");
        assert_eq!(keys(&world, "charge").len(), 1, "of both");
        assert_eq!(effects(&world, "fresh").await, 0);
        let timers = fresh.list(None, 10).await.unwrap();
        assert!(timers.is_empty(), "{timers:?}");
        let spec = Spec::once("own", world.now() + 1_000);
        fresh.upsert("own".into(), spec).await.unwrap();
        world.pass(secs(10), secs(1)).await;
        assert_eq!(effects(&world, "fresh").await, 1);
    });
}

#[test]
fn timers_due_at_a_restored_point_go_off_again_without_a_call() {
    run(async {
        let world = World::new(plain());
        let at = world.now() + 60_000;
        world
            .set_in_background("charge", Spec::once("charge", at))
            .await;
        let object = world.background();
        let (node, stub) = (&world.node, object.untyped());
        let then = node.bookmark(stub, None).await.unwrap();
        world.pass(Duration::from_mins(2), secs(10)).await;
        assert_eq!(world.calls.attempts("charge").len(), 1);
        // The operator wants to look first.
        node.restore_dormant(stub, then).await.unwrap();
        world.pass(Duration::from_mins(2), secs(10)).await;
        assert_eq!(world.calls.attempts("charge").len(), 1);
        node.activate(stub, Activation::Continue).await.unwrap();
        for _ in 0..100 {
            world.clock.advance(Duration::from_millis(500));
            tokio::time::sleep(Duration::from_millis(1)).await;
            if world.calls.attempts("charge").len() == 2 {
                break;
            }
        }
        assert_eq!(world.calls.attempts("charge").len(), 2);
        let keys: Vec<_> = world.calls.all().into_iter().map(|call| call.key).collect();
        assert_eq!(keys[0], keys[1], "the same occurrence has the same key");
    });
}

#[test]
fn an_occurrence_has_its_key_whatever_goes_off_before_it() {
    run(async {
        let world = World::new(plain());
        let at = world.now() + 60_000;
        let spec = Spec::every("charge", secs(60)).starting(at);
        world.set_in_background("charge", spec).await;
        let object = world.background();
        let (node, stub) = (&world.node, object.untyped());
        let then = node.bookmark(stub, None).await.unwrap();
        world.pass(secs(130), secs(10)).await;
        let before = world.calls.all();
        assert_eq!(before.len(), 2);
        node.restore_dormant(stub, then).await.unwrap();
        // Others go off first, and of those that were missed the last one does.
        for other in ["one", "two"] {
            let spec = Spec::once("other", at - 1_000);
            world.set_in_background(other, spec).await;
        }
        node.activate(stub, Activation::Continue).await.unwrap();
        world.pass(secs(20), secs(10)).await;
        let after = &world.calls.all()[2..];
        assert_eq!(after.len(), 3, "{after:?}");
        assert_eq!(after[2].timer, "charge");
        assert_eq!(after[2].due_at, before[1].due_at);
        assert_eq!(after[2].key, before[1].key);
    });
}

#[test]
fn a_timer_set_again_after_a_restore_has_other_keys() {
    run(async {
        let world = World::new(plain());
        let object = world.background();
        let (node, stub) = (&world.node, object.untyped());
        object.effects().await.unwrap();
        world
            .set_in_background("old", Spec::once("old", world.now()))
            .await;
        let then = node.bookmark(stub, None).await.unwrap();
        let at = world.now() + 60_000;
        for content in ["undone", "anew"] {
            world
                .set_in_background("charge", Spec::once(content, at))
                .await;
            world.pass(secs(70), secs(10)).await;
            node.restore(stub, then).await.unwrap();
        }
        assert_eq!(world.calls.attempts("charge").len(), 2);
        assert_eq!(keys(&world, "charge").len(), 2);
    });
}
