//! A draw each minute uses the slots of the minute.

use std::collections::BTreeMap;

use waiting_room::logic::{
    bucket::BucketId,
    division::Division,
    merge::RoomState,
    minute::Minute,
    plan::{Method, Plan, Rules},
    report::{Lane, Report},
    slots::Limits,
};

const VISITORS: u64 = 1_000;
const SLOTS: u64 = 100;
const NOW: Minute = Minute(1_000);

/// The plan after some have entered.
fn plan(entered: u64) -> Plan {
    let report = Report {
        data_centre: "a".to_owned(),
        active: 100 + entered,
        workers: 1,
        minute: NOW,
        waiting: BTreeMap::from([(BucketId::first_of(NOW.before(1)), VISITORS - entered)]),
        admitted_by_lane: BTreeMap::from([(Lane::Draw, entered)]),
        ..Report::default()
    };
    let rules = Rules {
        limits: Limits {
            total_active_users: 100 + SLOTS,
            new_users_per_minute: 10_000,
        },
        division: Division::Counters,
        method: Method::Random,
        holds_all: false,
        session_minutes: 5.0,
        draw: None,
    };
    Plan::new(RoomState::merge("a", NOW, vec![report]), rules)
}

#[test]
fn a_draw_uses_all_slots_of_its_minute() {
    for crowd in 0..20 {
        let visitors: Vec<_> = (0..VISITORS)
            .map(|number| (crowd * VISITORS + number).to_be_bytes())
            .collect();
        let mut has_entered = vec![false; visitors.len()];
        let (mut entered, mut plan_now) = (0, plan(0));
        // Each looks every 20 seconds.
        for second in 0..60_u32 {
            let passed = f64::from(second.saturating_sub(20)) / 40.0;
            for (index, visitor) in visitors.iter().enumerate() {
                let looks = index % 20 == second as usize % 20;
                let bucket = BucketId::first_of(NOW.before(1));
                if looks && !has_entered[index] && plan_now.is_drawn(visitor, bucket, passed) {
                    has_entered[index] = true;
                    entered += 1;
                    plan_now = plan(entered);
                }
            }
        }
        assert_eq!(entered, SLOTS, "crowd {crowd}");
    }
}
