//! Bookmarks and restores by an object itself.

use abide::{ErrorKind, clock::Clock as _};

use crate::{
    recovery::ledger::{Ledger, MINUTE, ledger, world},
    support::{World, run, signals},
};

#[test]
fn a_restore_takes_effect_when_the_object_starts_next_and_not_before() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let first = ledger.set("first".into()).await.unwrap();
        ledger.set("second".into()).await.unwrap();
        ledger.restore_next(first).await.unwrap();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "second");
        ledger.abort().await.unwrap_err();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "first");
        assert_eq!(ledger.memory().await.unwrap(), [""; 0]);
        // Once, not at every start.
        ledger.set("third".into()).await.unwrap();
        ledger.abort().await.unwrap_err();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "third");
    });
}

#[test]
fn the_bookmark_that_a_restore_returns_undoes_it() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let first = ledger.set("first".into()).await.unwrap();
        ledger.set("second".into()).await.unwrap();
        let undo = ledger.restore_next(first).await.unwrap();
        ledger.abort().await.unwrap_err();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "first");
        let redo = ledger.restore_next(undo).await.unwrap();
        ledger.abort().await.unwrap_err();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "second");
        ledger.restore_next(redo).await.unwrap();
        ledger.abort().await.unwrap_err();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "first");
    });
}

#[test]
fn an_object_restores_itself_and_returns_the_bookmark_to_undo_it() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let text = async || ledger.get().await.unwrap().unwrap();
        let first = ledger.set("first".into()).await.unwrap();
        ledger.set("second".into()).await.unwrap();
        let undo = ledger.restore(first, None).await.unwrap();
        assert_eq!(text().await, "first");
        assert_eq!(ledger.memory().await.unwrap(), [""; 0]);
        let redo = ledger.restore(undo, None).await.unwrap();
        assert_eq!(text().await, "second");
        ledger.restore(redo, None).await.unwrap();
        assert_eq!(text().await, "first");
        // Once, not at every start.
        ledger.set("third".into()).await.unwrap();
        ledger.abort().await.unwrap_err();
        assert_eq!(text().await, "third");
        // What the poll wrote before is in the state that the bookmark names.
        let undo = ledger.restore(first, Some("fourth".into())).await;
        assert_eq!(text().await, "first");
        let undo = undo.unwrap();
        ledger.restore(undo, None).await.unwrap();
        assert_eq!(text().await, "fourth");
    });
}

#[test]
fn who_waits_for_an_object_that_goes_back_learns_that_it_was_reset() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let first = ledger.set("first".into()).await.unwrap();
        ledger.set("second".into()).await.unwrap();
        let waiting = ledger.wait();
        signals(world.env()).wait("waiting").await;
        // A handler that continues waiting is one of them, and the object is restored all the same.
        let error = ledger.restore_and_wait(first).await.unwrap_err();
        assert!(error.object_reset(), "{error}");
        assert!(waiting.await.unwrap_err().object_reset());
        assert_eq!(ledger.get().await.unwrap().unwrap(), "first");
    });
}

#[test]
fn an_abort_in_the_same_poll_undoes_the_writes_and_keeps_the_request() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let first = ledger.set("first".into()).await.unwrap();
        ledger.set("second".into()).await.unwrap();
        let error = ledger.restore_now(first).await.unwrap_err();
        assert_eq!(error.to_string(), "to be restored");
        assert!(error.object_reset());
        assert_eq!(ledger.get().await.unwrap().unwrap(), "first");
    });
}

#[test]
fn a_panic_in_the_same_poll_undoes_the_request() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let first = ledger.set("first".into()).await.unwrap();
        ledger.set("second".into()).await.unwrap();
        ledger.restore_and_panic(first).await.unwrap_err();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "second");
    });
}

#[test]
fn bookmarks_and_requests_outlive_the_node() {
    run(async {
        let before = world();
        let ledger_before = ledger(&before, "a");
        let first = ledger_before.set("first".into()).await.unwrap();
        let second = ledger_before.set("second".into()).await.unwrap();
        ledger_before.restore_next(first).await.unwrap();
        let disk = before.stop().await;
        let after = World::on(disk, 1, |node| {
            node.class::<Ledger>(abide::ClassOptions::default())
        });
        let ledger = ledger(&after, "a");
        assert_eq!(ledger.get().await.unwrap().unwrap(), "first");
        ledger.restore_next(second).await.unwrap();
        ledger.abort().await.unwrap_err();
        assert_eq!(ledger.get().await.unwrap().unwrap(), "second");
    });
}

#[test]
fn bookmarks_of_an_object_sort_as_text_in_order_of_time() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let mut taken = Vec::new();
        for i in 0..20 {
            taken.push(ledger.set(i.to_string()).await.unwrap().to_string());
            if i % 6 == 0 {
                ledger.abort().await.unwrap_err();
            }
        }
        assert!(taken.is_sorted(), "{taken:?}");
    });
}

#[test]
fn the_bookmark_for_a_time_is_the_last_commit_at_or_before_it() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let born = world.clock.unix_millis();
        let first = ledger.set("first".into()).await.unwrap();
        world.clock.advance(MINUTE);
        let second = ledger.set("second".into()).await.unwrap();
        let minute = MINUTE.as_millis() as u64;
        let at = |time| ledger.bookmark_at(time);
        for (time, expected) in [
            (born, first),
            (born + minute - 1, first),
            (born + minute, second),
        ] {
            let found = at(time).await.unwrap();
            assert_eq!(found.to_string()[26..34], expected.to_string()[26..34]);
        }
        let error = at(born - 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(
            error
                .to_string()
                .contains("first commit was at 2026-01-01T00:00:00Z"),
            "{error}"
        );
    });
}

#[test]
fn a_bookmark_of_another_object_is_refused_and_nothing_is_changed() {
    run(async {
        let world = world();
        let (a, b) = (ledger(&world, "a"), ledger(&world, "b"));
        let first = a.set("a".into()).await.unwrap();
        b.set("b".into()).await.unwrap();
        let refused = b.restore_next(first).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Input);
        let refused = world.node.restore(b.untyped(), first).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Input);
        assert_eq!(b.get().await.unwrap().unwrap(), "b");
    });
}
