//! Who may enter in one data centre, in one minute: the merged state, the rules, and all that follows from both.
//!
//! Contract: a plan is good for one minute. As visitors are let in, the slots that are free become fewer and the admissions of the minute
//! more by the same number, so a bound on the *number* of admissions in the minute stays right also if the data centre's own workers have let in
//! visitors since. That is why bounds are numbers of the minute, not slots that are left.

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{
    division::{Division, Part},
    history::Shares,
    merge::RoomState,
    minute::Minute,
    queue,
    report::Lane,
    slots::Limits,
    wait::{self, Ahead},
};

/// What happens to visitors for whom there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// They wait; who came first enters first.
    #[default]
    Fifo,
    /// They wait; a draw each minute decides who enters.
    Random,
    /// They enter all the same, and are counted.
    PassThrough,
    /// They are turned away and keep no place.
    Reject,
}

/// What a room does at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    pub limits: Limits,
    pub division: Division,
    pub method: Method,
    /// Nobody is let in: everybody is queued, or an event has not begun.
    pub holds_everybody: bool,
}

/// How a visitor in a lane may enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Not now.
    Shut,
    /// Everybody in the lane may, wherever they are.
    Open,
    /// So many in this minute.
    Bounded(Part),
}

/// Who may enter in one data centre, in one minute.
#[derive(Clone, Debug)]
pub struct Plan {
    pub state: RoomState,
    pub rules: Rules,
    shares: Shares,
    /// Slots that are free for the room.
    pub slots: i64,
    /// Of them, for visitors who have just come.
    left: u64,
}

impl Plan {
    /// Decides everything that follows from a state.
    pub fn new(mut state: RoomState, rules: Rules) -> Self {
        let slots = if rules.holds_everybody {
            0
        } else {
            rules.limits.slots(state.active, state.admitted())
        };
        let left = queue::give(&mut state.buckets, slots);
        Self {
            shares: state.shares(),
            state,
            rules,
            slots,
            left,
        }
    }

    /// The minute that it is good for.
    pub fn minute(&self) -> Minute {
        self.state.minute
    }

    /// The lane of a visitor who waits.
    pub fn lane_of(&self, bucket: Minute) -> Lane {
        match self.rules.method {
            Method::Random => Lane::Draw,
            _ => Lane::Bucket(bucket),
        }
    }

    /// How a lane's visitors may enter.
    pub fn way(&self, lane: Lane) -> Way {
        if self.rules.method == Method::PassThrough {
            return Way::Open;
        }
        let (eligible, is_whole) = match lane {
            Lane::New => (self.left, false),
            Lane::Draw => {
                let waiting = self.state.waiting();
                let eligible = waiting.min(u64::try_from(self.slots).unwrap_or(0));
                (eligible, eligible == waiting)
            }
            Lane::Bucket(minute) => {
                let buckets = self.state.buckets.iter();
                let bucket = buckets.clone().find(|bucket| bucket.minute == minute);
                // A visitor whose bucket nobody else remembers is older or younger than those that wait, and goes with the
                // next younger bucket, at last with those who have just come.
                match bucket.or_else(|| buckets.clone().find(|bucket| bucket.minute > minute)) {
                    Some(bucket) => (bucket.eligible_slots, bucket.is_whole()),
                    None => (self.left, false),
                }
            }
        };
        if is_whole && self.slots > 0 {
            return Way::Open;
        }
        if eligible == 0 {
            return Way::Shut;
        }
        let admitted = self.state.admitted_in(lane);
        // What is left is divided, not what there was: slots that one data centre does not need are everybody's soon.
        let left = self.shares.divide(eligible);
        let here = left.own.get(&self.state.data_centre).copied().unwrap_or(0);
        let part = Part {
            here: admitted.here + here,
            anywhere: admitted.anywhere + left.anywhere,
        };
        if part == Part::default() {
            return Way::Shut;
        }
        Way::Bounded(part)
    }

    /// How many a worker may let in by itself in this minute, if workers decide.
    pub fn allowance(&self, part: Part) -> Option<u64> {
        let utilisation = self.rules.limits.utilisation(self.state.active);
        let division = self.rules.division;
        division.allowance(part, self.state.workers(), utilisation)
    }

    /// The most admissions of this minute, whatever the lanes: known for certain only where there is one data centre.
    pub fn most_admissions(&self) -> Option<u64> {
        let alone = self.state.reports.len() <= 1 && self.rules.method != Method::PassThrough;
        let slots = u64::try_from(self.slots).unwrap_or(0);
        alone.then(|| slots + self.state.admitted())
    }

    /// The most admissions of this minute in a lane whose visitors may all enter. Those that are known to wait are no more than this, but
    /// others may come back with tickets of their bucket that nobody remembers. Unbounded if everybody passes through.
    pub fn most_in_open_lane(&self) -> Option<u64> {
        let slots = u64::try_from(self.slots).unwrap_or(0);
        (self.rules.method != Method::PassThrough).then(|| slots + self.state.admitted())
    }

    /// Whether the draw of this minute has taken a visitor.
    pub fn is_drawn(&self, visitor: &[u8]) -> bool {
        let waiting = self.state.waiting();
        let slots = u64::try_from(self.slots).unwrap_or(0);
        slots > 0 && draw(visitor, self.minute()) * waiting as f64 <= slots as f64
    }

    /// How many are ahead of a visitor, and for how many minutes.
    pub fn expect(&self, bucket: Minute) -> (Ahead, Option<f64>) {
        let ahead = Ahead::of(&self.state.buckets, bucket);
        let minutes = wait::minutes(ahead.told(), self.state.admissions_per_minute);
        (ahead, minutes)
    }
}

/// A number from 0 to 1 that the visitor and the minute decide. Visitors do not choose what they are known by.
#[allow(clippy::expect_used, reason = "a digest has more than eight bytes")]
fn draw(visitor: &[u8], minute: Minute) -> f64 {
    let digest = Sha256::new()
        .chain_update(visitor)
        .chain_update(minute.0.to_be_bytes())
        .finalize();
    let (first, _) = digest.split_first_chunk::<8>().expect("a digest is longer");
    u64::from_be_bytes(*first) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::logic::report::Report;

    const NOW: Minute = Minute(1_000);

    fn rules(method: Method) -> Rules {
        Rules {
            limits: Limits {
                total_active_users: 200,
                new_users_per_minute: 200,
            },
            division: Division::Counters,
            method,
            holds_everybody: false,
        }
    }

    fn report(name: &str, active: u64, arrived: u64, waiting: &[(u64, u64)]) -> Report {
        Report {
            data_centre: name.to_owned(),
            active,
            workers: 3,
            minute: NOW,
            waiting: waiting
                .iter()
                .map(|(ago, n)| (NOW.before(*ago), *n))
                .collect(),
            arrivals: BTreeMap::from([(NOW.before(2), arrived)]),
            ..Report::default()
        }
    }

    fn plan(reports: Vec<Report>, rules: Rules) -> Plan {
        Plan::new(RoomState::merge("a", NOW, reports), rules)
    }

    #[test]
    fn visitors_who_have_just_come_share_what_is_free_by_the_traffic_two_minutes_ago() {
        let two = vec![report("a", 20, 45, &[]), report("b", 30, 55, &[])];
        let plan = plan(two, rules(Method::Fifo));
        assert_eq!(plan.slots, 150);
        let part = Part {
            here: 68,
            anywhere: 0,
        }; // 67.5: rounded for the first of equals
        assert_eq!(plan.way(Lane::New), Way::Bounded(part));
        assert_eq!(plan.most_admissions(), None, "others may let in more");
    }

    #[test]
    fn a_whole_bucket_may_enter_anywhere_and_one_that_is_partly_eligible_is_shared() {
        let waiting = [(5, 30), (4, 60)];
        let two = vec![report("a", 70, 25, &waiting), report("b", 80, 75, &[])];
        let plan = plan(two, rules(Method::Fifo));
        assert_eq!(plan.slots, 50);
        assert_eq!(plan.way(Lane::Bucket(NOW.before(5))), Way::Open);
        assert_eq!(
            plan.most_in_open_lane(),
            Some(50),
            "whoever comes back with a place that nobody remembers needs a slot, too"
        );
        let part = Part {
            here: 5,
            anywhere: 0,
        };
        assert_eq!(plan.way(Lane::Bucket(NOW.before(4))), Way::Bounded(part));
        assert_eq!(plan.way(Lane::New), Way::Shut);
    }

    #[test]
    fn a_bound_does_not_change_as_visitors_are_let_in() {
        let before = plan(vec![report("a", 150, 1, &[(1, 80)])], rules(Method::Fifo));
        let bucket = Lane::Bucket(NOW.before(1));
        let mut later = report("a", 160, 1, &[(1, 70)]);
        later.admitted_by_lane = BTreeMap::from([(bucket, 10)]);
        let after = plan(vec![later], rules(Method::Fifo));
        assert_eq!(
            before.way(bucket),
            Way::Bounded(Part {
                here: 50,
                anywhere: 0
            })
        );
        assert_eq!(before.way(bucket), after.way(bucket));
        assert_eq!(
            (before.most_admissions(), after.most_admissions()),
            (Some(50), Some(50))
        );
    }

    #[test]
    fn a_room_that_holds_everybody_lets_nobody_in() {
        let held = Rules {
            holds_everybody: true,
            ..rules(Method::Fifo)
        };
        let plan = plan(vec![report("a", 0, 1, &[(1, 5)])], held);
        assert_eq!(plan.way(Lane::New), Way::Shut);
        assert_eq!(plan.way(Lane::Bucket(NOW.before(1))), Way::Shut);
    }

    #[test]
    fn a_room_that_passes_through_lets_everybody_in_though_it_is_full() {
        let plan = plan(vec![report("a", 500, 1, &[])], rules(Method::PassThrough));
        assert_eq!(plan.way(Lane::New), Way::Open);
        assert_eq!(plan.most_admissions(), None);
        assert_eq!(plan.most_in_open_lane(), None);
    }

    #[test]
    fn a_draw_takes_about_as_many_as_there_are_slots_and_others_each_minute() {
        let at = |minute| {
            let mut report = report("a", 100, 1, &[(1, 1_000)]);
            report.minute = minute;
            Plan::new(
                RoomState::merge("a", minute, vec![report]),
                rules(Method::Random),
            )
        };
        let drawn = |plan: &Plan| -> Vec<u32> {
            (0..1_000_u32)
                .filter(|visitor| plan.is_drawn(&visitor.to_be_bytes()))
                .collect()
        };
        let (first, second) = (drawn(&at(NOW)), drawn(&at(Minute(NOW.0 + 1))));
        assert!((60..140).contains(&first.len()), "{}", first.len());
        assert_ne!(first, second);
        let part = Part {
            here: 100,
            anywhere: 0,
        };
        assert_eq!(at(NOW).way(Lane::Draw), Way::Bounded(part));
    }

    #[test]
    fn a_visitor_whose_bucket_is_forgotten_does_not_pass_those_who_waited_longer() {
        let plan = plan(vec![report("a", 190, 1, &[(5, 30)])], rules(Method::Fifo));
        assert_eq!(plan.way(Lane::Bucket(NOW.before(3))), Way::Shut);
        assert!(matches!(
            plan.way(Lane::Bucket(NOW.before(7))),
            Way::Bounded(_)
        ));
    }
}
