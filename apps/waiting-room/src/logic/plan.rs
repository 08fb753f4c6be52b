//! Who may enter in one data centre, in one minute: the merged state, the rules, and all that follows from both.
//!
//! Contract: the slots that are left and all known admissions of the minute make up what the minute has. Admissions do not change
//! that sum, wherever they are, so every bound is a share of it: data centres that hear of each other late have the same bounds, and the
//! bounds together are no more than the minute has. Bounds are numbers of the minute, not slots that are left.

use serde::Deserialize;

use super::{
    bucket::{BucketId, Draw, lot},
    division::{Division, Part},
    history::{Parts, Shares},
    merge::RoomState,
    minute::Minute,
    queue,
    report::Lane,
    slots::Limits,
    wait::{Ahead, Pace},
};

/// The counter of the numbers that belong to no data centre.
pub const ANYWHERE: &str = "anywhere";

/// Most counters of other data centres that are asked for one visitor, one after the other.
const MOST_LENDERS: usize = 4;

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
    /// Admits no visitor: every visitor is queued, or an event has not begun.
    pub holds_all: bool,
    /// Minutes for which a visitor stays inside at least.
    pub session_minutes: f64,
    /// The draw of an event, after it.
    pub draw: Option<Draw>,
}

/// How a visitor in a lane may enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Not now.
    Shut,
    /// All visitors in the lane may, wherever they are.
    Open,
    /// In this minute these many, by the counter that has their numbers.
    Bounded(Parts),
}

/// A counter that may have a number for a visitor, and how many it gives in this minute. Unbounded where all visitors pass through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A data centre's name, or [`ANYWHERE`].
    pub counter: String,
    /// To visitors of the lane.
    pub in_lane: Option<u64>,
    /// To all.
    pub in_all: Option<u64>,
}

impl Source {
    /// Whether its bounds are no lower than those of another.
    pub fn allows_as_much_as(&self, other: &Self) -> bool {
        let no_lower = |own: Option<u64>, other: Option<u64>| {
            own.is_none_or(|own| other.is_some_and(|other| other <= own))
        };
        no_lower(self.in_lane, other.in_lane) && no_lower(self.in_all, other.in_all)
    }
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
        let slots = if rules.holds_all {
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

    /// The minute this plan is valid for.
    pub fn minute(&self) -> Minute {
        self.state.minute
    }

    /// The lane of a visitor who waits.
    pub fn lane_of(&self, bucket: BucketId) -> Lane {
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
            Lane::Bucket(id) => {
                // A visitor whose bucket is forgotten goes with the next younger one, or else with those who have just come.
                match self.state.buckets.iter().find(|bucket| bucket.id >= id) {
                    Some(bucket) => (bucket.eligible_slots, bucket.is_whole()),
                    None => (self.left, false),
                }
            }
        };
        // The numbers of counters are bounded all the same. Workers that decide alone may do so where all data centres know who waits.
        let is_known = match lane {
            _ if self.rules.division == Division::Counters => true,
            Lane::Bucket(id) => id.minute() < self.minute(),
            Lane::New | Lane::Draw => false,
        };
        if is_whole && is_known && self.slots > 0 {
            return Way::Open;
        }
        if eligible == 0 {
            return Way::Shut;
        }
        let lane_has = eligible + self.state.admitted_in(lane);
        Way::Bounded(self.shares.divide(lane_has))
    }

    /// The counters that may have a number for a visitor of a lane, in the order in which they are asked: the data centre's own, that of
    /// *Anywhere*, and those of other data centres that seem to need theirs least. A number that one data centre does not need is
    /// borrowed from its counter, so that none is given twice.
    pub fn sources(&self, way: &Way) -> Vec<Source> {
        let own = self.state.data_centre.as_str();
        let in_lane = match way {
            Way::Shut => return Vec::new(),
            Way::Open => None,
            Way::Bounded(parts) => Some(parts),
        };
        let Some(capacity) = self.capacity() else {
            return vec![Source {
                counter: own.to_owned(),
                in_lane: None,
                in_all: None,
            }];
        };
        let in_all = self.shares.divide(capacity);
        let lenders = in_all.own.keys().filter(|name| *name != own);
        let left = |name: &str| in_all.of(name).saturating_sub(self.state.given(name));
        let mut lenders: Vec<_> = lenders.map(|name| (left(name), name.as_str())).collect();
        lenders.sort_by_key(|(left, name)| (std::cmp::Reverse(*left), *name));
        lenders.truncate(MOST_LENDERS);
        let far = [(left(ANYWHERE), ANYWHERE)].into_iter().chain(lenders);
        let far = far.filter(|(left, _)| *left > 0).map(|(_, name)| name);
        let source = |name: &str| Source {
            counter: name.to_owned(),
            in_lane: in_lane.map(|parts| parts.of(name)),
            in_all: Some(in_all.of(name)),
        };
        [own].into_iter().chain(far).map(source).collect()
    }

    /// All admissions of this minute, past and possible; `None` if all visitors pass through.
    fn capacity(&self) -> Option<u64> {
        let admitted = i64::try_from(self.state.admitted()).unwrap_or(i64::MAX);
        let capacity = u64::try_from(self.slots.saturating_add(admitted)).unwrap_or(0);
        (self.rules.method != Method::PassThrough).then_some(capacity)
    }

    /// How many of a lane a worker may admit without a call in this minute; `None` if counters decide.
    pub fn allowance(&self, lane: Lane, way: &Way) -> Option<u64> {
        let workers = self.state.workers();
        let parts = match way {
            _ if self.rules.division == Division::Counters => return None,
            Way::Shut => return Some(0),
            Way::Open => return Some(self.capacity().unwrap_or(u64::MAX)),
            Way::Bounded(parts) => parts,
        };
        let part = Part {
            here: parts.of(&self.state.data_centre),
            anywhere: parts.anywhere,
        };
        // Workers hear what the data centre's others have done: together they stop at its part, however few of them are counted.
        let all = self.shares.divide(self.capacity().unwrap_or(u64::MAX));
        let all = Part {
            here: all.of(&self.state.data_centre),
            anywhere: all.anywhere,
        };
        if self.state.admitted_here_in(lane) >= part.of_data_centre(workers)
            || self.state.admitted_here() >= all.of_data_centre(workers)
        {
            return Some(0);
        }
        let utilisation = self.rules.limits.utilisation(self.state.active);
        self.rules.division.allowance(part, workers, utilisation)
    }

    /// Whether the state is complete enough to decide from it: every data centre has told of the minute before, and drawn if there
    /// was a draw.
    pub fn is_settled(&self) -> bool {
        self.state.is_settled(self.drawn_at())
    }

    /// When the last draw was; 0 if there was none.
    pub fn drawn_at(&self) -> u64 {
        self.rules.draw.map_or(0, |draw| draw.at)
    }

    /// Whether the draw of this minute has taken a visitor. `passed` is the part of the minute that is over since every drawn visitor
    /// has asked: slots that they leave go to the next in the order of the draw.
    pub fn is_drawn(&self, visitor: &[u8], bucket: BucketId, passed: f64) -> bool {
        let Ok(slots) = u64::try_from(self.slots) else {
            return false;
        };
        // Admissions do not change the odds, and visitors who came in this minute take part in the next draw, so that each who was drawn
        // stays drawn.
        let admitted = self.state.admitted_in(Lane::Draw);
        let is_in = |bucket: BucketId| bucket.minute() < self.minute();
        let waiting = self.state.buckets.iter().filter(|bucket| is_in(bucket.id));
        let waiting: u64 = waiting.map(|bucket| bucket.waiting).sum();
        let (free, candidates) = (slots + admitted, waiting + admitted);
        if !is_in(bucket) {
            return slots > waiting;
        }
        let odds = free as f64 / candidates.max(1) as f64;
        slots > 0 && lot(visitor, self.minute().0) <= odds * (1.0 + passed)
    }

    /// How many are ahead of a visitor.
    pub fn ahead(&self, bucket: BucketId) -> Ahead {
        Ahead::of(&self.state.buckets, bucket)
    }

    /// Minutes until this many people have entered; `None` if it cannot be estimated.
    pub fn minutes(&self, people: u64) -> Option<f64> {
        let limits = self.rules.limits;
        // Visitors stay for a session at least: in the long run they cannot leave faster.
        let at_most = limits.total_active_users as f64 / self.rules.session_minutes.max(1e-3);
        let leave = self.state.departures_per_minute;
        // A visitor who waits was refused a slot: one that seems to be free is one of which others have not told yet.
        let free = match self.slots {
            ..=0 => limits.total_active_users.saturating_sub(self.state.active),
            _ => 0,
        };
        let pace = Pace {
            free,
            most: limits.new_users_per_minute as f64,
            leave: leave.unwrap_or(at_most).min(at_most),
        };
        pace.minutes(people)
    }
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
            holds_all: false,
            session_minutes: 5.0,
            draw: None,
        }
    }

    fn bucket(ago: u64) -> BucketId {
        BucketId::first_of(NOW.before(ago))
    }

    fn report(name: &str, active: u64, arrived: u64, waiting: &[(u64, u64)]) -> Report {
        Report {
            data_centre: name.to_owned(),
            active,
            workers: 3,
            minute: NOW,
            waiting: waiting.iter().map(|(ago, n)| (bucket(*ago), *n)).collect(),
            arrivals: BTreeMap::from([(NOW.before(2), arrived)]),
            ..Report::default()
        }
    }

    fn plan(reports: Vec<Report>, rules: Rules) -> Plan {
        Plan::new(RoomState::merge("a", NOW, reports), rules)
    }

    /// The parts of data centre `a` and of *Anywhere*.
    fn parts(plan: &Plan, lane: Lane) -> (u64, u64) {
        match plan.way(lane) {
            Way::Bounded(parts) => (parts.of("a"), parts.anywhere),
            way => panic!("{way:?}"),
        }
    }

    /// The counters that are asked, with their bounds.
    fn sources(plan: &Plan, lane: Lane) -> Vec<(String, Option<u64>, Option<u64>)> {
        let sources = plan.sources(&plan.way(lane)).into_iter();
        let sources = sources.map(|source| (source.counter, source.in_lane, source.in_all));
        sources.collect()
    }

    #[test]
    fn new_visitors_share_free_slots_by_the_traffic_two_minutes_ago() {
        let two = vec![report("a", 20, 45, &[]), report("b", 30, 55, &[])];
        let plan = plan(two, rules(Method::Fifo));
        assert_eq!(plan.slots, 150);
        // 67.5: rounded for the first of equals.
        assert_eq!(parts(&plan, Lane::New), (68, 0));
        let (a, b) = (
            ("a".into(), Some(68), Some(68)),
            ("b".into(), Some(82), Some(82)),
        );
        assert_eq!(
            sources(&plan, Lane::New),
            [a, b],
            "what one does not need is lent"
        );
    }

    #[test]
    fn own_admissions_do_not_raise_the_bound_of_a_data_centre() {
        let at = |here: u64, there: u64| {
            let mut two = vec![
                report("a", 50 + here, 1, &[]),
                report("b", 50 + there, 1, &[]),
            ];
            for (report, admitted) in two.iter_mut().zip([here, there]) {
                report.admitted_by_lane = BTreeMap::from([(Lane::New, admitted)]);
            }
            plan(two, rules(Method::Fifo))
        };
        for (here, there) in [(0, 0), (25, 0), (50, 0), (50, 30), (20, 50)] {
            assert_eq!(
                parts(&at(here, there), Lane::New),
                (50, 0),
                "{here} {there}"
            );
        }
        assert_eq!(at(50, 50).way(Lane::New), Way::Shut);
    }

    #[test]
    fn workers_that_decide_alone_stop_at_the_part_of_their_data_centre() {
        let at = |here: u64, division| {
            let mut two = vec![report("a", here, 1, &[]), report("b", 0, 1, &[])];
            two[0].admitted_by_lane = BTreeMap::from([(Lane::New, here)]);
            let plan = plan(
                two,
                Rules {
                    division,
                    ..rules(Method::Fifo)
                },
            );
            plan.allowance(Lane::New, &plan.way(Lane::New))
        };
        let curve = Division::Curve { factor: 1.0 };
        assert_eq!(at(0, Division::Even), Some(33));
        assert_eq!(at(0, curve), Some(100), "an empty room");
        assert_eq!(at(99, curve), Some(67));
        assert_eq!(
            (at(100, curve), at(100, Division::Even)),
            (Some(0), Some(0))
        );
        assert_eq!(at(0, Division::Counters), None);
    }

    #[test]
    fn a_whole_bucket_enters_anywhere_and_a_partial_one_is_shared() {
        let waiting = [(5, 30), (4, 60)];
        let two = vec![report("a", 70, 25, &waiting), report("b", 80, 75, &[])];
        let plan = plan(two, rules(Method::Fifo));
        assert_eq!(plan.slots, 50);
        let old = Lane::Bucket(bucket(5));
        assert_eq!(plan.way(old), Way::Open);
        let (a, b) = (("a".into(), None, Some(13)), ("b".into(), None, Some(37)));
        assert_eq!(
            sources(&plan, old),
            [a, b],
            "a forgotten ticket needs a slot, too"
        );
        assert_eq!(parts(&plan, Lane::Bucket(bucket(4))), (5, 0));
        assert_eq!(plan.way(Lane::New), Way::Shut);
    }

    #[test]
    fn a_bound_does_not_change_as_visitors_are_let_in() {
        let before = plan(vec![report("a", 150, 1, &[(1, 80)])], rules(Method::Fifo));
        let lane = Lane::Bucket(bucket(1));
        let mut later = report("a", 160, 1, &[(1, 70)]);
        later.admitted_by_lane = BTreeMap::from([(lane, 10)]);
        let after = plan(vec![later], rules(Method::Fifo));
        let own = ("a".into(), Some(50), Some(50));
        assert_eq!(sources(&before, lane), std::slice::from_ref(&own));
        assert_eq!(sources(&after, lane), [own]);
    }

    #[test]
    fn a_room_that_holds_all_admits_no_visitor() {
        let held = Rules {
            holds_all: true,
            ..rules(Method::Fifo)
        };
        let plan = plan(vec![report("a", 0, 1, &[(1, 5)])], held);
        assert_eq!(plan.way(Lane::New), Way::Shut);
        assert_eq!(plan.way(Lane::Bucket(bucket(1))), Way::Shut);
    }

    #[test]
    fn a_full_pass_through_room_admits_all() {
        let plan = plan(vec![report("a", 500, 1, &[])], rules(Method::PassThrough));
        assert_eq!(sources(&plan, Lane::New), [("a".into(), None, None)]);
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
                .filter(|visitor| plan.is_drawn(&visitor.to_be_bytes(), bucket(1), 0.0))
                .collect()
        };
        let (first, second) = (drawn(&at(NOW)), drawn(&at(Minute(NOW.0 + 1))));
        assert!((60..140).contains(&first.len()), "{}", first.len());
        assert_ne!(first, second);
        assert_eq!(parts(&at(NOW), Lane::Draw), (100, 0));
    }

    #[test]
    fn a_drawn_visitor_stays_drawn_as_slots_are_taken() {
        let at = |entered: u64| {
            let mut report = report("a", 100 + entered, 1, &[(1, 1_000 - entered)]);
            // Visitors of this minute are not in this draw.
            report.waiting.insert(BucketId::first_of(NOW), entered);
            report.admitted_by_lane = BTreeMap::from([(Lane::Draw, entered)]);
            plan(vec![report], rules(Method::Random))
        };
        let drawn = |plan: &Plan, passed: f64| -> Vec<u32> {
            (0..1_000_u32)
                .filter(|visitor| plan.is_drawn(&visitor.to_be_bytes(), bucket(1), passed))
                .collect()
        };
        let first = drawn(&at(0), 0.0);
        assert_eq!(first, drawn(&at(50), 0.0));
        assert_eq!(first, drawn(&at(99), 0.0));
        assert!(drawn(&at(100), 1.0).is_empty(), "no slot is left");
        let later = drawn(&at(50), 1.0);
        assert!(later.len() > first.len() && first.iter().all(|one| later.contains(one)));
        let late = |plan: &Plan| plan.is_drawn(b"late", BucketId::first_of(NOW), 0.0);
        assert!(!late(&at(0)));
    }

    #[test]
    fn the_wait_goes_by_departures_and_not_by_what_filled_the_room() {
        let mut one = report("a", 200, 1, &[(1, 60)]);
        one.admitted = BTreeMap::from([(NOW.before(2), 180), (NOW.before(1), 20)]);
        let told = |report: &Report| plan(vec![report.clone()], rules(Method::Fifo)).minutes(60);
        assert_eq!(
            told(&one),
            Some(1.5),
            "200 sessions of 5 minutes: 40 a minute"
        );
        one.left = BTreeMap::from([(NOW.before(2), 8), (NOW.before(1), 12)]);
        assert_eq!(told(&one), Some(6.0));
    }

    #[test]
    fn a_visitor_of_a_forgotten_bucket_does_not_pass_longer_waiters() {
        let plan = plan(vec![report("a", 190, 1, &[(5, 30)])], rules(Method::Fifo));
        assert_eq!(plan.way(Lane::Bucket(bucket(3))), Way::Shut);
        assert!(matches!(plan.way(Lane::Bucket(bucket(7))), Way::Bounded(_)));
    }
}
