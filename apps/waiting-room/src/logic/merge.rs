//! The state of a room: what its data centres have reported, put together.
//!
//! Data centres need not agree on anything: each merges the newest reports that it has, and they differ by the delay between them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    bucket::BucketId,
    division::Workers,
    history::{LAG_MINUTES, Shares},
    minute::Minute,
    queue::Bucket,
    report::{Lane, REPORTED_MINUTES, Report},
    wait,
};

/// The merged state of a room, as one data centre knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoomState {
    /// The minute for which it was made.
    pub minute: Minute,
    /// The data centre that made it.
    pub data_centre: String,
    /// Visitors inside.
    pub active: u64,
    /// Who waits, the oldest first.
    pub buckets: Vec<Bucket>,
    /// Admissions in this minute so far, by where visitors stood.
    pub admitted_by_lane: BTreeMap<Lane, u64>,
    /// On average, in the minutes that are over.
    pub admissions_per_minute: f64,
    /// The same of visitors who left; absent if none has.
    pub departures_per_minute: Option<f64>,
    /// In the data centre that made this.
    pub workers_here: u64,
    /// In all data centres.
    pub workers_world: u64,
    /// What it was made of.
    pub reports: Vec<Report>,
}

impl RoomState {
    /// Merges reports into the state as `data_centre` sees it. A new room has no reports: then only its limits are
    /// known.
    pub fn merge(data_centre: &str, minute: Minute, mut reports: Vec<Report>) -> Self {
        reports.sort_by(|a, b| a.data_centre.cmp(&b.data_centre));
        let mut waiting: BTreeMap<BucketId, u64> = BTreeMap::new();
        let mut by_lane: BTreeMap<Lane, u64> = BTreeMap::new();
        for report in &reports {
            for (bucket, count) in &report.waiting {
                *waiting.entry(*bucket).or_default() += count;
            }
            if report.minute == minute {
                for (lane, count) in &report.admitted_by_lane {
                    *by_lane.entry(*lane).or_default() += count;
                }
            }
        }
        let buckets = waiting.into_iter().filter(|(_, waiting)| *waiting > 0);
        let buckets = buckets.map(|(id, waiting)| Bucket {
            id,
            waiting,
            eligible_slots: 0,
        });
        let here = reports
            .iter()
            .find(|report| report.data_centre == data_centre);
        let workers_here = here.map_or(0, |report| report.workers).max(1);
        let others = reports
            .iter()
            .filter(|report| report.data_centre != data_centre);
        let workers_others: u64 = others.map(|report| report.workers).sum();
        Self {
            minute,
            data_centre: data_centre.to_owned(),
            active: reports.iter().map(|report| report.active).sum(),
            buckets: buckets.collect(),
            admitted_by_lane: by_lane,
            admissions_per_minute: average(minute, &reports, |report| &report.admitted)
                .unwrap_or_else(|| in_minute(minute, &reports, |report| &report.admitted) as f64),
            departures_per_minute: average(minute, &reports, |report| &report.left),
            workers_here,
            workers_world: workers_here + workers_others,
            reports,
        }
    }

    /// Admissions in this minute so far.
    pub fn admitted(&self) -> u64 {
        self.admitted_by_lane.values().sum()
    }

    /// Those of one lane.
    pub fn admitted_in(&self, lane: Lane) -> u64 {
        self.admitted_by_lane.get(&lane).copied().unwrap_or(0)
    }

    /// Those of the data centre that made this.
    pub fn admitted_here(&self) -> u64 {
        self.own()
            .map_or(0, |own| own.admitted_by_lane.values().sum())
    }

    /// Those of one lane in the data centre that made this.
    pub fn admitted_here_in(&self, lane: Lane) -> u64 {
        let own = self.own();
        own.and_then(|own| own.admitted_by_lane.get(&lane).copied())
            .unwrap_or(0)
    }

    fn own(&self) -> Option<&Report> {
        let mut reports = self.of_this_minute();
        reports.find(|report| report.data_centre == self.data_centre)
    }

    /// Numbers that a counter is known to have given in this minute.
    pub fn given(&self, counter: &str) -> u64 {
        let taken = |report: &Report| match &report.data_centre {
            own if own == counter => {
                let all: u64 = report.admitted_by_lane.values().sum();
                all.saturating_sub(report.borrowed.values().sum())
            }
            _ => report.borrowed.get(counter).copied().unwrap_or(0),
        };
        self.of_this_minute().map(taken).sum()
    }

    fn of_this_minute(&self) -> impl Iterator<Item = &Report> {
        let reports = self.reports.iter();
        reports.filter(|report| report.minute == self.minute)
    }

    /// Every other data centre has reported in this minute, and so each visitor whom it let in before, and after the moment `since`.
    pub fn is_settled(&self, since: u64) -> bool {
        let mut others = self
            .reports
            .iter()
            .filter(|report| report.data_centre != self.data_centre && !report.is_silent);
        others.all(|report| report.minute >= self.minute && report.at >= since)
    }

    /// Who waits.
    pub fn waiting(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.waiting).sum()
    }

    /// Active workers.
    pub fn workers(&self) -> Workers {
        Workers {
            here: self.workers_here,
            world: self.workers_world,
        }
    }

    /// Visitors who came in a minute, by data centre.
    pub fn arrivals(&self, minute: Minute) -> BTreeMap<String, u64> {
        let counts = self.reports.iter().filter_map(|report| {
            let count = report.arrivals.get(&minute)?;
            Some((report.data_centre.clone(), *count))
        });
        counts.collect()
    }

    /// The shares that divide this minute's slots.
    pub fn shares(&self) -> Shares {
        let reachable = self.reports.iter().filter(|report| !report.is_silent);
        let names: Vec<_> = reachable.map(|report| report.data_centre.clone()).collect();
        Shares::of_arrivals(&self.arrivals(self.minute.before(LAG_MINUTES)), &names)
    }
}

/// What all data centres counted in a minute.
fn in_minute(
    minute: Minute,
    reports: &[Report],
    counts: impl Fn(&Report) -> &BTreeMap<Minute, u64>,
) -> u64 {
    let counts = reports
        .iter()
        .filter_map(|report| counts(report).get(&minute));
    counts.sum()
}

/// The average over the minutes that are over, from the first in which anything was counted.
fn average(
    minute: Minute,
    reports: &[Report],
    counts: impl Fn(&Report) -> &BTreeMap<Minute, u64>,
) -> Option<f64> {
    let over = (1..REPORTED_MINUTES).rev().map(|ago| minute.before(ago));
    let over: Vec<u64> = over
        .map(|minute| in_minute(minute, reports, &counts))
        .collect();
    let first = over.iter().position(|count| *count > 0)?;
    Some(wait::average(&over[first..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::{queue::give, slots::Limits};

    fn at(hour: u64, minute: u64) -> Minute {
        Minute(hour * 60 + minute)
    }

    fn report(name: &str, active: u64, waiting: &[(Minute, u64)]) -> Report {
        let waiting = waiting
            .iter()
            .map(|(minute, count)| (BucketId::first_of(*minute), *count));
        Report {
            data_centre: name.to_owned(),
            active,
            workers: 2,
            waiting: waiting.collect(),
            ..Report::default()
        }
    }

    fn dublin_and_nairobi(dublin: u64, nairobi: u64) -> RoomState {
        let reports = vec![
            report("Dublin", dublin, &[(at(15, 55), 20), (at(15, 56), 40)]),
            report(
                "Nairobi",
                nairobi,
                &[(at(15, 54), 2), (at(15, 55), 30), (at(15, 56), 20)],
            ),
        ];
        RoomState::merge("Dublin", at(15, 57), reports)
    }

    const LIMIT: Limits = Limits {
        total_active_users: 200,
        new_users_per_minute: 200,
    };

    #[test]
    fn merged_counts_and_buckets_add_up() {
        let merged = dublin_and_nairobi(50, 151);
        assert_eq!(merged.active, 201);
        let waiting: Vec<_> = merged
            .buckets
            .iter()
            .map(|b| (b.id.minute(), b.waiting))
            .collect();
        assert_eq!(
            waiting,
            [(at(15, 54), 2), (at(15, 55), 50), (at(15, 56), 60)]
        );
        assert_eq!(merged.workers(), Workers { here: 2, world: 4 });
    }

    #[test]
    fn an_overfull_room_has_no_slot_and_free_slots_go_to_oldest_buckets() {
        let mut full = dublin_and_nairobi(50, 151);
        let slots = LIMIT.slots(full.active, full.admitted());
        assert_eq!(slots, -1);
        give(&mut full.buckets, slots);
        assert!(full.buckets.iter().all(|bucket| bucket.eligible_slots == 0));

        let mut roomy = dublin_and_nairobi(40, 108);
        let slots = LIMIT.slots(roomy.active, roomy.admitted());
        assert_eq!(slots, 52);
        give(&mut roomy.buckets, slots);
        let eligible: Vec<_> = roomy.buckets.iter().map(|b| b.eligible_slots).collect();
        assert_eq!(eligible, [2, 50, 0]);
    }

    #[test]
    fn the_shares_of_a_minute_are_those_of_two_minutes_before() {
        let arrived = |name: &str, counts: [u64; 2]| Report {
            arrivals: BTreeMap::from([(at(16, 31), counts[0]), (at(16, 32), counts[1])]),
            ..report(name, 0, &[])
        };
        let reports = vec![arrived("a", [50, 45]), arrived("b", [50, 55])];
        let slots = |minute| {
            RoomState::merge("a", minute, reports.clone())
                .shares()
                .divide(1_000)
        };
        assert_eq!(
            slots(at(16, 33)).own,
            BTreeMap::from([("a".into(), 500), ("b".into(), 500)])
        );
        assert_eq!(
            slots(at(16, 34)).own,
            BTreeMap::from([("a".into(), 450), ("b".into(), 550)])
        );
    }

    #[test]
    fn a_state_is_settled_when_all_reachable_data_centres_have_reported() {
        let of = |name: &str, minute| Report {
            minute,
            at: 7,
            ..report(name, 0, &[])
        };
        let settled = |reports| RoomState::merge("a", at(12, 1), reports).is_settled(7);
        let own = of("a", at(12, 1));
        assert!(settled(vec![own.clone()]));
        assert!(settled(vec![own.clone(), of("b", at(12, 1))]));
        assert!(!settled(vec![own.clone(), of("b", at(12, 0))]));
        let before_the_draw = Report {
            at: 6,
            ..of("b", at(12, 1))
        };
        assert!(!settled(vec![own.clone(), before_the_draw]));
        let silent = Report {
            is_silent: true,
            ..of("b", at(12, 0))
        };
        assert!(settled(vec![own, silent]));
    }

    #[test]
    fn a_borrowed_number_counts_for_the_counter_that_gave_it() {
        let with = |name: &str, admitted, borrowed: &[(&str, u64)]| Report {
            admitted_by_lane: BTreeMap::from([(Lane::New, admitted)]),
            borrowed: borrowed
                .iter()
                .map(|(name, n)| ((*name).to_owned(), *n))
                .collect(),
            ..report(name, admitted, &[])
        };
        let reports = vec![
            with("a", 9, &[("b", 4), ("anywhere", 2)]),
            with("b", 5, &[("anywhere", 1)]),
        ];
        let state = RoomState::merge("a", Minute::default(), reports);
        let given = ["a", "b", "anywhere"].map(|counter| state.given(counter));
        assert_eq!(given, [3, 8, 3]);
        assert_eq!(
            (
                state.admitted_in(Lane::New),
                state.admitted_here_in(Lane::New)
            ),
            (14, 9)
        );
    }

    #[test]
    fn of_a_new_room_only_the_limits_are_known() {
        let new = RoomState::merge("a", at(12, 0), Vec::new());
        assert_eq!((new.active, new.waiting(), new.admitted()), (0, 0, 0));
        assert_eq!(new.workers(), Workers { here: 1, world: 1 });
    }

    #[test]
    fn admissions_of_another_minute_are_not_counted_as_of_this_one() {
        let old = Report {
            minute: at(12, 0),
            admitted_by_lane: BTreeMap::from([(Lane::New, 7)]),
            admitted: BTreeMap::from([(at(12, 0), 7)]),
            ..report("a", 7, &[])
        };
        let now = RoomState::merge("a", at(12, 1), vec![old.clone()]);
        assert_eq!(now.admitted(), 0);
        assert!((now.admissions_per_minute - 7.0).abs() < 1e-9);
        assert_eq!(RoomState::merge("a", at(12, 0), vec![old]).admitted(), 7);
    }
}
