//! Restoring and forking from outside, on a running node.

use abide::{ErrorKind, Moment};

use crate::{
    recovery::ledger::{MINUTE, ledger, now, world},
    support::{is_answered, run},
};

#[test]
fn an_object_is_restored_on_a_running_node_and_loses_its_memory() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let first = ledger.set("first".into()).await.unwrap();
        ledger.set("second".into()).await.unwrap();
        let undo = world.node.restore(ledger.untyped(), first).await.unwrap();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "first");
        assert_eq!(ledger.memory().await.unwrap(), [""; 0]);
        assert_eq!(ledger.called().await.unwrap().unwrap(), "a");
        world.node.restore(ledger.untyped(), undo).await.unwrap();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "second");
    });
}

#[test]
fn an_object_is_restored_to_a_time() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        ledger.set("first".into()).await.unwrap();
        let then = now(&world);
        world.clock.advance(MINUTE);
        ledger.set("second".into()).await.unwrap();
        world.node.restore(ledger.untyped(), then).await.unwrap();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "first");
        let error = world.node.restore(ledger.untyped(), then - MINUTE).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert_eq!(ledger.get().await.unwrap().unwrap(), "first");
    });
}

#[test]
fn a_running_handler_sees_the_reset_and_new_events_wait() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let first = ledger.set("first".into()).await.unwrap();
        ledger.set("second".into()).await.unwrap();
        let running = ledger.wait();
        world.signals.wait("waiting").await;
        // The restore takes as long as the disk does.
        world.disk.hold_syncs();
        let node = world.node.clone();
        let stub = ledger.untyped().clone();
        let restore = tokio::spawn(async move { node.restore(&stub, first).await });
        let error = running.await.unwrap_err();
        assert!(error.object_reset() && !error.retryable(), "{error:?}");
        assert!(error.to_string().contains("restore"), "{error}");
        let mut get = ledger.get();
        let mut memory = ledger.memory();
        world.fence().await;
        assert!(!is_answered(&mut get) && !is_answered(&mut memory));
        world.disk.release_syncs();
        restore.await.unwrap().unwrap();
        assert_eq!(get.await.unwrap().unwrap(), "first");
        assert_eq!(memory.await.unwrap(), [""; 0]);
    });
}

#[test]
fn other_objects_of_the_worker_run_while_one_is_restored() {
    run(async {
        let world = world();
        let (a, b) = (ledger(&world, "a"), ledger(&world, "b"));
        let first = a.set("first".into()).await.unwrap();
        a.set("second".into()).await.unwrap();
        b.set("b".into()).await.unwrap();
        world.disk.hold_syncs();
        let node = world.node.clone();
        let stub = a.untyped().clone();
        let restore = tokio::spawn(async move { node.restore(&stub, first).await });
        for _ in 0..10 {
            assert_eq!(b.get().await.unwrap().unwrap(), "b");
        }
        world.disk.release_syncs();
        restore.await.unwrap().unwrap();
    });
}

#[test]
fn a_second_restore_of_the_same_object_is_told_to_come_again() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let first = ledger.set("first".into()).await.unwrap();
        ledger.set("second".into()).await.unwrap();
        world.disk.hold_syncs();
        let restore = |_| {
            let (node, stub) = (world.node.clone(), ledger.untyped().clone());
            tokio::spawn(async move { node.restore(&stub, first).await })
        };
        let (one, other) = (restore(1), restore(2));
        let refused = tokio::select! {
            refused = one => refused,
            refused = other => refused,
        };
        let error = refused.unwrap().unwrap_err();
        assert!(error.overloaded() && error.retryable(), "{error:?}");
        world.disk.release_syncs();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "first");
    });
}

#[test]
fn a_fork_has_a_new_name_and_leaves_the_original_unchanged() {
    run(async {
        let world = world();
        let original = ledger(&world, "original");
        let first = original.set("first".into()).await.unwrap();
        original.set("second".into()).await.unwrap();
        let stub = original.untyped();
        let id = world.node.fork(stub, first, "copy").await.unwrap();
        let copy = ledger(&world, "copy");
        assert_eq!(copy.untyped().id(), id);
        assert_eq!(copy.get().await.unwrap().unwrap(), "first");
        assert_eq!(copy.called().await.unwrap().unwrap(), "copy");
        copy.set("other".into()).await.unwrap();
        assert_eq!(original.get().await.unwrap().unwrap(), "second");
        assert_eq!(original.memory().await.unwrap(), ["first", "second"]);
        let error = world.node.fork(stub, first, "copy").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert_eq!(copy.get().await.unwrap().unwrap(), "other");
    });
}

#[test]
fn the_bookmark_of_an_object_is_told_from_outside() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        ledger.set("first".into()).await.unwrap();
        let outside = world.node.bookmark(ledger.untyped(), None).await.unwrap();
        assert_eq!(outside, ledger.bookmark().await.unwrap());
        let then = Moment::from(now(&world));
        world.clock.advance(MINUTE);
        ledger.set("second".into()).await.unwrap();
        let then = world.node.bookmark(ledger.untyped(), Some(then)).await;
        assert_eq!(then.unwrap(), outside);
    });
}
