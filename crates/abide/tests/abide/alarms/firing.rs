//! Setting, moving and deleting an alarm, and when it goes off.

use std::time::Duration;

use abide::{ErrorKind, limits::MAX_ALARMS_PER_WORKER};

use crate::{
    alarms::sleeper::{Dormitory, exact},
    support::run,
};

#[test]
fn an_alarm_goes_off_once_at_its_time() {
    run(async {
        let beds = Dormitory::new();
        let ada = beds.object("ada");
        ada.set(5_000).await.unwrap();
        assert_eq!(ada.get().await.unwrap(), Some(5_000));
        beds.pass(4_999).await;
        assert_eq!(beds.notes("ada"), [""; 0]);
        beds.advance(1);
        beds.fired("ada").await;
        assert_eq!(ada.get().await.unwrap(), None);
        beds.pass(60_000).await;
        assert_eq!(beds.notes("ada"), ["at 5000 for 5000 retry 0"]);
    });
}

#[test]
fn an_alarm_for_a_time_that_has_passed_goes_off_at_once() {
    run(async {
        let beds = Dormitory::new();
        beds.advance(10_000);
        beds.object("ada").set(3_000).await.unwrap();
        beds.fired("ada").await;
        beds.object("bob").set_in(0).await.unwrap();
        beds.fired("bob").await;
        assert_eq!(beds.notes("ada"), ["at 10000 for 3000 retry 0"]);
        assert_eq!(beds.notes("bob"), ["at 10000 for 10000 retry 0"]);
    });
}

#[test]
fn an_alarm_wakes_an_object_that_has_left_memory() {
    run(async {
        let beds = Dormitory::new();
        beds.object("ada").set(60_000).await.unwrap();
        beds.advance(10_000);
        beds.world.until(|node| node.stats().evicted >= 1).await;
        beds.advance(50_000);
        beds.fired("ada").await;
        assert_eq!(beds.notes("made").len(), 2);
        // It was only there for its alarm, so it does not stay for long.
        let evicted = beds.world.node.stats().evicted;
        let in_flight = |node: &abide::Node| node.store().alarms().counts().in_flight;
        beds.world.until(|node| in_flight(node) == 0).await;
        beds.advance(1_000);
        beds.world
            .until(|node| node.stats().evicted > evicted)
            .await;
    });
}

#[test]
fn an_alarm_that_is_set_again_moves() {
    run(async {
        let beds = Dormitory::new();
        let (ada, bob) = (beds.object("ada"), beds.object("bob"));
        ada.set(5_000).await.unwrap();
        ada.set(2_000).await.unwrap();
        bob.set(2_000).await.unwrap();
        bob.set(5_000).await.unwrap();
        beds.pass(3_000).await;
        assert_eq!(beds.notes("ada"), ["at 3000 for 2000 retry 0"]);
        assert_eq!(beds.notes("bob"), [""; 0]);
        beds.pass(3_000).await;
        assert_eq!(beds.notes("ada").len(), 1);
        assert_eq!(beds.notes("bob"), ["at 6000 for 5000 retry 0"]);
    });
}

#[test]
fn an_alarm_that_is_deleted_does_not_go_off() {
    run(async {
        let beds = Dormitory::new();
        let (ada, bob) = (beds.object("ada"), beds.object("bob"));
        for sleeper in [&ada, &bob] {
            sleeper.put("key".to_owned(), 1).await.unwrap();
            sleeper.set(1_000).await.unwrap();
        }
        ada.delete().await.unwrap();
        bob.delete_all().await.unwrap();
        assert_eq!(ada.get().await.unwrap(), None);
        beds.pass(2_000).await;
        assert_eq!((beds.notes("ada").len(), beds.notes("bob").len()), (0, 0));
        assert_eq!(ada.read("key".to_owned()).await.unwrap(), Some(1));
    });
}

#[test]
fn an_alarm_is_part_of_the_polls_transaction() {
    run(async {
        let beds = Dormitory::new();
        let ada = beds.object("ada");
        ada.set(5_000).await.unwrap();
        let error = ada.set_then_panic(1_000).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Reset);
        assert_eq!(ada.get().await.unwrap(), Some(5_000));
        beds.pass(2_000).await;
        assert_eq!(beds.notes("ada"), [""; 0]);
    });
}

#[test]
fn nonsense_is_refused_with_the_reason() {
    run(async {
        let beds = Dormitory::new();
        let ada = beds.object("ada");
        for (millis, reason) in [
            (-i64::from(u32::MAX) * 1_000, "after 1970"),
            (i64::from(u32::MAX) * 1_000_000, "year 9999"),
        ] {
            let error = ada.set(millis).await.unwrap_err();
            assert!(error.message().contains(reason), "{error}");
        }
        assert_eq!(ada.get().await.unwrap(), None);
    });
}

#[test]
fn many_alarms_go_off_in_the_order_of_their_times() {
    run(async {
        const MANY: i64 = 600;
        let beds = Dormitory::new();
        for number in 0..MANY {
            let due = 1_000 + (number * 37) % MANY;
            let sleeper = beds.object(&format!("s{due}"));
            sleeper.set(due).await.unwrap();
        }
        beds.pass(5_000).await;
        let notes = beds.notes("s");
        assert_eq!(notes.len(), 600);
        // Those that are in flight together may pass each other.
        for (note, place) in notes.iter().zip(0_i64..) {
            let due: i64 = note.split(' ').next().unwrap().parse().unwrap();
            let passed = due - 1_000 - place;
            assert!(
                passed < i64::try_from(MAX_ALARMS_PER_WORKER).unwrap(),
                "{due} passed at least {passed} others"
            );
        }
    });
}

#[test]
fn a_node_that_stops_waits_for_handlers_and_begins_no_others() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            sleeper.signals.give("begun");
            sleeper.signals.wait("go").await;
            sleeper.ctx.storage().put("done", &1_i64)
        });
        beds.object("ada").set(1_000).await.unwrap();
        beds.object("bob").set(2_000).await.unwrap();
        beds.advance(1_000);
        beds.world.signals.wait("begun").await;
        let node = beds.world.node.clone();
        let stopping = tokio::spawn(async move { node.shutdown(Duration::from_mins(1)).await });
        let (ada, signals) = (beds.object("ada"), beds.world.signals.clone());
        while ada.get().await.is_ok() {
            tokio::task::yield_now().await;
        }
        beds.advance(1_000);
        signals.give("go");
        stopping.await.unwrap().unwrap();
        beds.world.node.store().close().unwrap();
        assert_eq!((beds.notes("ada").len(), beds.notes("bob").len()), (1, 0));

        let clock = beds.world.clock.clone();
        let beds = Dormitory::on(clock, beds.world.disk.after_kill(), exact());
        beds.fired("bob").await;
        let done = beds.object("ada").read("done".to_owned());
        assert_eq!(done.await.unwrap(), Some(1));
        assert_eq!(beds.notes("ada"), [""; 0]);
    });
}
