//! Alarms that were given up: they are listed, counted, and run again on demand.

use abide::{
    ErrorKind,
    clock::TestClock,
    storage::{AlarmState, SimDisk},
};

use crate::{
    alarms::sleeper::{Dormitory, giving_up_after, time},
    support::run,
};

/// A node on which `ada`'s alarm of 1000 has failed seven times.
async fn given_up() -> Dormitory {
    let beds = Dormitory::on(TestClock::new(), SimDisk::new(), giving_up_after(6));
    beds.script.fail(7);
    beds.object("ada").set(1_000).await.unwrap();
    for _ in 0..130 {
        beds.pass(1_000).await;
    }
    beds
}

#[test]
fn an_alarm_is_given_up_after_six_retries_and_is_listed_and_counted() {
    run(async {
        let beds = given_up().await;
        assert_eq!(beds.notes("ada").len(), 7);
        let stats = beds.world.node.stats();
        assert_eq!((stats.alarms_failed, stats.alarms_given_up), (1, 1));
        let ada = beds.object("ada");
        assert_eq!(ada.get().await.unwrap(), None);
        let failed = beds.world.node.alarms(AlarmState::Failed, None, 10);
        let [alarm] = failed.as_slice() else {
            panic!("{failed:?}")
        };
        assert_eq!(
            (alarm.class.as_str(), alarm.id, alarm.attempts, alarm.failed),
            ("Sleeper", ada.id(), 7, true)
        );
        assert_eq!(alarm.due, time(1_000));
        assert_eq!(beds.world.node.alarms(AlarmState::Pending, None, 10), []);
        beds.pass(1_000_000).await;
        assert_eq!(beds.notes("ada").len(), 7);
    });
}

#[test]
fn a_given_up_alarm_rerun_on_demand_starts_afresh() {
    run(async {
        let beds = given_up().await;
        let ada = beds.object("ada");
        let node = &beds.world.node;
        node.rerun_alarm(ada.untyped(), None).await.unwrap();
        beds.world.until(|_| beds.notes("ada").len() == 8).await;
        assert_eq!(beds.notes("ada")[7], "at 130000 for 1000 retry 0");
        assert_eq!(ada.get().await.unwrap(), None);
        assert_eq!(node.stats().alarms_failed, 0);
        let error = node.rerun_alarm(ada.untyped(), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn what_is_failing_is_listed_with_its_error_and_can_be_run_at_once() {
    run(async {
        let beds = Dormitory::new();
        beds.script.fail(5);
        let ada = beds.object("ada");
        ada.set(1_000).await.unwrap();
        beds.object("bob").set(500_000).await.unwrap();
        let node = &beds.world.node;
        assert_eq!(node.alarms(AlarmState::Failing, None, 10), []);
        for _ in 0..20 {
            beds.pass(1_000).await;
        }
        let failing = node.alarms(AlarmState::Failing, None, 10);
        let [alarm] = failing.as_slice() else {
            panic!("{failing:?}")
        };
        assert_eq!(
            (alarm.id, alarm.attempts, alarm.failing),
            (ada.id(), 4, true)
        );
        assert_eq!(alarm.due, time(31_000));
        assert_eq!(node.stats().alarms_failing, 1);
        let alarms = node.alarms_of(ada.untyped()).await.unwrap();
        let [alarm] = alarms.as_slice() else {
            panic!("{alarms:?}")
        };
        assert_eq!(alarm.error.as_deref(), Some("it does not work"));
        assert_eq!((alarm.cut_off, alarm.crashes), (0, 0));

        node.rerun_alarm(ada.untyped(), None).await.unwrap();
        beds.world.until(|_| beds.notes("ada").len() == 5).await;
        assert_eq!(beds.notes("ada")[4], "at 20000 for 1000 retry 0");
        beds.world
            .until(|node| node.stats().alarms_failing == 1)
            .await;
        beds.pass(2_000).await;
        beds.world
            .until(|node| node.stats().alarms_failing == 0)
            .await;
        assert_eq!(node.alarms_of(ada.untyped()).await.unwrap(), []);
        let bob = beds.object("bob");
        let error = node.rerun_alarm(bob.untyped(), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "it has not failed");
    });
}

#[test]
fn a_given_up_alarm_survives_a_restart_until_a_new_one_is_set() {
    run(async {
        let beds = given_up().await;
        let clock = beds.world.clock.clone();
        let beds = Dormitory::on(clock, beds.world.stop().await, giving_up_after(6));
        assert_eq!(beds.world.node.stats().alarms_failed, 1);
        beds.pass(100_000).await;
        assert_eq!(beds.notes("ada"), [""; 0]);
        beds.object("ada").set_in(1_000).await.unwrap();
        assert_eq!(beds.world.node.stats().alarms_failed, 0);
        beds.pass(1_000).await;
        assert_eq!(beds.notes("ada"), ["at 231000 for 231000 retry 0"]);
    });
}

#[test]
fn pending_alarms_are_listed_by_time_page_by_page() {
    run(async {
        let beds = Dormitory::new();
        for number in 0..10 {
            let sleeper = beds.object(&format!("s{number}"));
            sleeper.set(5_000 - number * 100).await.unwrap();
        }
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = beds.world.node.alarms(AlarmState::Pending, after, 3);
            let Some(last) = page.last() else { break };
            after = Some(last.place);
            listed.extend(page.iter().map(|alarm| alarm.due));
        }
        let expected: Vec<_> = (0..10)
            .rev()
            .map(|number| time(5_000 - number * 100))
            .collect();
        assert_eq!(listed, expected);
    });
}
