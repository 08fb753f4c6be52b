//! A wall clock that is set back.

use std::{sync::Arc, time::Duration};

use abide::{Node, clock::TestClock, storage::SimDisk};

use crate::{
    alarms::sleeper::{Dormitory, Sleeper, exact, time},
    support::run,
};

const HOUR: u64 = 3_600_000;

impl Dormitory {
    /// Sets the wall clock back by this many hours.
    fn set_back(&self, hours: u64) {
        let millis = i64::try_from(hours * HOUR).unwrap();
        self.world.clock.set_wall(-millis);
    }
}

#[test]
fn a_wait_is_no_longer_when_the_clock_is_set_back() {
    run(async {
        let beds = Dormitory::new();
        beds.object("ada").set_in(2 * HOUR).await.unwrap();
        beds.pass(HOUR).await;
        beds.set_back(10);
        beds.pass(HOUR - 1).await;
        assert_eq!(beds.notes("ada"), [""; 0]);
        beds.pass(1).await;
        assert_eq!(beds.notes("ada"), ["at -28800000 for 7200000 retry 0"]);
        beds.pass(20 * HOUR).await;
        assert_eq!(beds.notes("ada").len(), 1);
    });
}

#[test]
fn an_alarm_for_a_time_of_the_clock_waits_until_the_clock_shows_it() {
    run(async {
        let beds = Dormitory::new();
        let at = i64::try_from(2 * HOUR).unwrap();
        beds.object("ada").set(at).await.unwrap();
        beds.set_back(1);
        beds.pass(3 * HOUR - 1).await;
        assert_eq!(beds.notes("ada"), [""; 0]);
        beds.pass(1).await;
        assert_eq!(beds.notes("ada"), ["at 7200000 for 7200000 retry 0"]);
    });
}

#[test]
fn a_wait_that_begins_after_the_clock_was_set_back_is_not_shortened() {
    run(async {
        let beds = Dormitory::new();
        beds.object("eve").set_in(HOUR).await.unwrap();
        beds.set_back(2);
        // The clock has not been read since.
        beds.object("ada").set_in(HOUR).await.unwrap();
        beds.pass(HOUR - 1).await;
        assert_eq!(beds.notes("ada"), [""; 0]);
        beds.pass(1).await;
        assert_eq!((beds.notes("ada").len(), beds.notes("eve").len()), (1, 1));
    });
}

#[test]
fn a_retry_is_no_later_when_the_clock_is_set_back() {
    run(async {
        let beds = Dormitory::new();
        beds.script.fail(1);
        beds.object("ada").set(1_000).await.unwrap();
        beds.pass(1_000).await;
        beds.set_back(1);
        beds.pass(1_999).await;
        assert_eq!(beds.notes("ada").len(), 1);
        beds.pass(1).await;
        assert_eq!(beds.notes("ada").len(), 2);
    });
}

#[test]
fn an_alarm_that_a_handler_sets_after_some_time_is_a_wait_too() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            let storage = sleeper.ctx.storage();
            storage.set_alarm(Duration::from_hours(2))
        });
        beds.object("ada").set(1_000).await.unwrap();
        beds.pass(1_000).await;
        beds.set_back(5);
        beds.pass(2 * HOUR).await;
        assert_eq!(beds.notes("ada").len(), 2);
    });
}

#[test]
fn setting_the_clock_back_does_not_lengthen_a_handler_s_wait() {
    run(async {
        for other in [false, true] {
            let beds = Dormitory::new();
            beds.script.then(async |sleeper| {
                sleeper.ctx.storage().set_alarm(Duration::from_mins(1))?;
                sleeper.signals.wait("continue").await;
                Ok(())
            });
            let ada = beds.object("ada");
            ada.set(1_000).await.unwrap();
            if other {
                ada.set_other(100 * HOUR).await.unwrap();
            }
            beds.advance(1_000);
            beds.world
                .until(|node| node.stats().alarms_fired == 1)
                .await;
            beds.set_back(1);
            beds.pass(30_000).await;
            beds.world.signals.give("continue");
            beds.fired("ada").await;
            beds.pass(30_000 - 1).await;
            assert_eq!(beds.notes("ada").len(), 1, "{other}");
            beds.pass(1).await;
            assert_eq!(beds.notes("ada").len(), 2, "{other}");
        }
    });
}

#[test]
fn a_failed_savepoint_after_the_clock_was_set_back_lengthens_no_wait() {
    run(async {
        let beds = Dormitory::new();
        let ada = beds.object("ada");
        ada.set_in(60_000).await.unwrap();
        beds.set_back(1);
        beds.pass(6_000).await;
        ada.set_other_in_vain().await.unwrap();
        beds.pass(54_000 - 1).await;
        assert_eq!(beds.notes("ada"), [""; 0]);
        beds.pass(1).await;
        assert_eq!(beds.notes("ada").len(), 1);
    });
}

#[test]
fn the_time_of_a_wait_is_told_by_the_present_clock() {
    run(async {
        let beds = Dormitory::new();
        let ada = beds.object("ada");
        ada.set_in(2 * HOUR).await.unwrap();
        beds.set_back(10);
        let at = i64::try_from(8 * HOUR).unwrap();
        assert_eq!(ada.get().await.unwrap(), Some(-at));
    });
}

#[test]
fn a_wait_set_after_a_step_back_is_exact_after_a_kill() {
    run(async {
        // Nothing was written between the two steps and their waits but the waits.
        let beds = Dormitory::new();
        beds.object("ada").set_in(10 * HOUR).await.unwrap();
        for _ in 0..2 {
            beds.advance(HOUR);
            beds.set_back(3);
            beds.object("eve").set_in(5 * HOUR).await.unwrap();
        }
        let beds = beds.killed();
        beds.pass(5 * HOUR - 1).await;
        assert_eq!(beds.notes("eve"), [""; 0]);
        beds.pass(1).await;
        assert_eq!(beds.notes("eve").len(), 1);
        beds.pass(3 * HOUR - 1).await;
        assert_eq!(beds.notes("ada"), [""; 0]);
        beds.pass(1).await;
        assert_eq!(beds.notes("ada").len(), 1);
    });
}

#[test]
fn a_clock_set_back_is_remembered_across_a_restart() {
    run(async {
        for checkpoint in [false, true] {
            let beds = Dormitory::new();
            beds.object("ada").set_in(4 * HOUR).await.unwrap();
            beds.pass(HOUR).await;
            beds.set_back(10);
            beds.pass(HOUR).await;
            if checkpoint {
                beds.world.node.store().checkpoint().unwrap();
            }
            let beds = beds.killed();
            beds.pass(HOUR).await;
            assert_eq!(beds.notes("ada"), [""; 0]);
            let beds = beds.killed();
            beds.pass(HOUR - 1).await;
            assert_eq!(beds.notes("ada"), [""; 0]);
            beds.pass(1).await;
            assert_eq!(beds.notes("ada").len(), 1, "checkpoint: {checkpoint}");
        }
    });
}

/// Recovery must not count a step before a wait that the wait does not know of.
#[test]
fn a_step_back_that_only_a_commit_or_a_checkpoint_sees_shortens_no_wait() {
    run(async {
        for checkpoint in [false, true] {
            let beds = Dormitory::new();
            beds.object("eve").set_in(HOUR).await.unwrap();
            let see = async || {
                if checkpoint {
                    beds.world.node.store().checkpoint().unwrap();
                } else {
                    beds.object("bob").put("seen".into(), 1).await.unwrap();
                }
            };
            beds.world.clock.set_wall(13 * 3_600_000);
            see().await;
            beds.set_back(20);
            see().await;
            beds.world.clock.set_wall(10 * 3_600_000);
            beds.object("ada").set_in(4 * HOUR).await.unwrap();
            let beds = beds.killed();
            beds.pass(4 * HOUR - 1).await;
            assert_eq!(beds.notes("ada"), [""; 0], "checkpoint: {checkpoint}");
            beds.pass(1).await;
            assert_eq!(beds.notes("ada").len(), 1, "checkpoint: {checkpoint}");
        }
    });
}

/// The first node's clock must not report the step as well.
#[test]
fn a_step_back_is_counted_once_if_a_second_node_serves_the_store() {
    run(async {
        let beds = Dormitory::new();
        let store = beds.world.node.store().clone();
        let node = Node::builder(store.clone())
            .class::<Sleeper>(exact())
            .with(beds.world.signals.clone())
            .with(beds.script.clone())
            .clock(Arc::new(beds.world.clock.clone()))
            .workers(1);
        beds.world
            .node
            .shutdown(Duration::from_secs(10))
            .await
            .unwrap();
        let node = node.start().unwrap();
        beds.set_back(10);
        let ada = node.env().object::<Sleeper>().get_by_name("ada");
        ada.put("key".into(), 1).await.unwrap();
        ada.set_in(HOUR).await.unwrap();
        let back = i64::try_from(10 * HOUR).unwrap();
        assert_eq!(store.alarms().set_back(), back);
        node.shutdown(Duration::from_secs(10)).await.unwrap();
    });
}

#[test]
fn setting_the_clock_back_while_down_delays_a_wait_by_that_much() {
    run(async {
        for checkpoint in [false, true] {
            let beds = Dormitory::new();
            beds.object("ada").set_in(4 * HOUR).await.unwrap();
            beds.pass(HOUR).await;
            if checkpoint {
                beds.world.node.store().checkpoint().unwrap();
            }
            let disk = beds.world.disk.after_kill();
            let clock = TestClock::new();
            clock.set_wall(-time(0).unix_millis() / 2);
            let beds = Dormitory::on(clock, disk, exact());
            beds.pass(3 * HOUR - 1).await;
            assert_eq!(beds.notes("ada"), [""; 0]);
            beds.pass(1).await;
            assert_eq!(beds.notes("ada").len(), 1, "checkpoint: {checkpoint}");
        }
    });
}

#[test]
fn steps_of_the_clock_that_are_no_setting_change_nothing() {
    run(async {
        let beds = Dormitory::on(TestClock::new(), SimDisk::new(), exact());
        beds.object("ada").set_in(HOUR).await.unwrap();
        for _ in 0..100 {
            beds.world.clock.set_wall(-4_000);
            beds.pass(1_000).await;
            beds.world.clock.set_wall(4_000);
            beds.pass(1_000).await;
        }
        beds.pass(HOUR - 200_000 - 1).await;
        assert_eq!(beds.notes("ada"), [""; 0]);
        beds.pass(1).await;
        assert_eq!(beds.notes("ada").len(), 1);
    });
}
