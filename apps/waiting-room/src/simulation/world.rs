//! Data centres, workers and visitors in steps of a tenth of a second.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{
    random::Random,
    scenario::{MINUTE, STEPS_PER_SECOND, Scenario},
};
use crate::logic::{
    division::Division,
    merge::RoomState,
    minute::Minute,
    plan::{Method, Plan, Rules, Way},
    report::{Lane, Report},
    slots::Limits,
};

/// Steps between two reports of a data centre to the world.
const EXCHANGE: u64 = 5;
/// Steps between two states that workers get of their data centre.
const REFRESH: u64 = 5;
/// Steps between two looks at the queue.
const LOOK: u64 = 20 * STEPS_PER_SECOND;
/// A worker without a request for so many steps is not active.
const IDLE: u64 = MINUTE * STEPS_PER_SECOND;
/// Far in the past there is nothing: minutes begin here.
const FIRST_MINUTE: u64 = 100;

/// What is measured in one run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) visitors: u64,
    pub(super) overshoot: u64,
    pub(super) queued_too_early: u64,
}

struct Centre {
    report: Report,
    /// When visitors leave.
    leaving: VecDeque<u64>,
    /// When each worker had its last request.
    workers: Vec<Option<u64>>,
    heard: BTreeMap<String, Report>,
    /// Reports of others that are on their way, with the step in which they come.
    underway: VecDeque<(u64, Report)>,
    plan: Plan,
    /// Visitors whom each worker let in by itself in this minute, by lane.
    own: HashMap<(usize, Lane), u64>,
    /// Numbers that were given in this minute.
    numbers: HashMap<Lane, u64>,
}

struct Waiting {
    centre: usize,
    bucket: Minute,
}

struct World<'a> {
    scenario: &'a Scenario,
    rules: Rules,
    centres: Vec<Centre>,
    /// Those who wait, by the step of the 20 seconds in which they look at the queue.
    waiting: Vec<Vec<Waiting>>,
    /// Visitors who have come while a minute begins, by data centre.
    held: Vec<usize>,
    anywhere: HashMap<Lane, u64>,
    /// Who comes: the same for each way to divide.
    arrivals: Random,
    /// Which worker a request reaches, and which is replaced.
    workers: Random,
    measured: Measured,
    minute: Minute,
}

/// One run.
pub(super) fn run(scenario: &Scenario, division: Division, seed: u64) -> Measured {
    let rules = Rules {
        limits: Limits {
            total_active_users: scenario.limit,
            new_users_per_minute: scenario.limit,
        },
        division,
        method: Method::Fifo,
        holds_everybody: false,
    };
    let mut world = World::new(scenario, rules, seed);
    for step in 0..scenario.minutes * MINUTE * STEPS_PER_SECOND {
        world.step(step);
    }
    world.measured
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, rules: Rules, seed: u64) -> Self {
        let centres = (0..scenario.calm.len()).map(|number| {
            let name = format!("dc-{number}");
            let minute = Minute(FIRST_MINUTE);
            let report = Report {
                data_centre: name.clone(),
                minute,
                ..Report::default()
            };
            let state = RoomState::merge(&name, minute, vec![report.clone()]);
            Centre {
                plan: Plan::new(state, rules),
                report,
                leaving: VecDeque::new(),
                workers: Vec::new(),
                heard: BTreeMap::new(),
                underway: VecDeque::new(),
                own: HashMap::new(),
                numbers: HashMap::new(),
            }
        });
        let mut world = Self {
            scenario,
            rules,
            centres: centres.collect(),
            waiting: (0..LOOK).map(|_| Vec::new()).collect(),
            held: Vec::new(),
            anywhere: HashMap::new(),
            arrivals: Random::new(seed),
            workers: Random::new(!seed),
            measured: Measured::default(),
            minute: Minute(FIRST_MINUTE),
        };
        // Before the first step everybody has heard of everybody.
        let reports: Vec<_> = world
            .centres
            .iter()
            .map(|centre| centre.report.clone())
            .collect();
        for centre in &mut world.centres {
            let others = reports
                .iter()
                .filter(|report| report.data_centre != centre.report.data_centre);
            centre.heard = others
                .map(|report| (report.data_centre.clone(), report.clone()))
                .collect();
        }
        world
    }

    fn step(&mut self, step: u64) {
        let minute = Minute(FIRST_MINUTE + step / (MINUTE * STEPS_PER_SECOND));
        if minute != self.minute {
            self.begin(minute);
        }
        let spikes = self
            .scenario
            .spike_minutes
            .contains(&(minute.0 - FIRST_MINUTE));
        self.leave(step);
        self.keep_workers(step, spikes);
        if step.is_multiple_of(EXCHANGE) {
            self.exchange(step);
        }
        self.arrive_reports(step);
        if step.is_multiple_of(REFRESH) || step.is_multiple_of(MINUTE * STEPS_PER_SECOND) {
            self.refresh();
        }
        let rates = if spikes {
            self.scenario.spike
        } else {
            self.scenario.calm
        };
        for (centre, rate) in rates.iter().enumerate() {
            let average = rate / (MINUTE * STEPS_PER_SECOND) as f64;
            for _ in 0..self.arrivals.arrivals(average) {
                self.come(step, centre);
            }
        }
        for centre in std::mem::take(&mut self.held) {
            self.come(step, centre);
        }
        self.look(step);
        let active: u64 = self.centres.iter().map(|centre| centre.report.active).sum();
        let over = active.saturating_sub(self.scenario.limit);
        self.measured.overshoot = self.measured.overshoot.max(over);
    }

    fn begin(&mut self, minute: Minute) {
        self.minute = minute;
        self.anywhere.clear();
        for centre in &mut self.centres {
            centre.own.clear();
            centre.numbers.clear();
            centre.report.minute = minute;
            centre.report.admitted_by_lane.clear();
            centre.report.anywhere_by_lane.clear();
        }
    }

    fn leave(&mut self, step: u64) {
        for centre in &mut self.centres {
            while centre.leaving.front().is_some_and(|at| *at <= step) {
                centre.leaving.pop_front();
                centre.report.active -= 1;
            }
        }
    }

    /// Workers are started for a spike and stopped after it, and now and then one is replaced by a new one.
    fn keep_workers(&mut self, step: u64, spikes: bool) {
        let wanted = self.scenario.workers[usize::from(spikes)];
        for (centre, wanted) in self.centres.iter_mut().zip(wanted) {
            centre
                .workers
                .resize(usize::try_from(wanted).unwrap_or(1), None);
            if step.is_multiple_of(20 * STEPS_PER_SECOND) {
                let replaced = usize::try_from(self.workers.below(wanted)).unwrap_or(0);
                centre.workers[replaced] = None;
            }
            let active = centre
                .workers
                .iter()
                .flatten()
                .filter(|seen| *seen + IDLE > step);
            centre.report.workers = active.count() as u64;
            centre.report.at = step;
        }
    }

    /// A report goes to the world and from there to the others.
    fn exchange(&mut self, step: u64) {
        let reports: Vec<_> = self
            .centres
            .iter()
            .map(|centre| centre.report.clone())
            .collect();
        for centre in &mut self.centres {
            for report in &reports {
                if report.data_centre != centre.report.data_centre {
                    centre
                        .underway
                        .push_back((step + 2 * self.scenario.delay, report.clone()));
                }
            }
        }
    }

    fn arrive_reports(&mut self, step: u64) {
        for centre in &mut self.centres {
            while centre.underway.front().is_some_and(|(at, _)| *at <= step) {
                if let Some((_, report)) = centre.underway.pop_front() {
                    centre.heard.insert(report.data_centre.clone(), report);
                }
            }
        }
    }

    fn refresh(&mut self) {
        for centre in &mut self.centres {
            let mut reports: Vec<_> = centre.heard.values().cloned().collect();
            reports.push(centre.report.clone());
            let state = RoomState::merge(&centre.report.data_centre, self.minute, reports);
            centre.plan = Plan::new(state, self.rules);
        }
    }

    /// Somebody comes who was not here before.
    fn come(&mut self, step: u64, centre: usize) {
        if !self.centres[centre].plan.state.is_settled() {
            self.held.push(centre);
            return;
        }
        self.measured.visitors += 1;
        *self.centres[centre]
            .report
            .arrivals
            .entry(self.minute)
            .or_default() += 1;
        let active: u64 = self.centres.iter().map(|centre| centre.report.active).sum();
        let waiting = self.waiting.iter().map(Vec::len).sum::<usize>() as u64;
        if self.admit(step, centre, Lane::New) {
            return;
        }
        // Slots that those who wait already do not need.
        if active + waiting < self.scenario.limit {
            self.measured.queued_too_early += 1;
        }
        *self.centres[centre]
            .report
            .waiting
            .entry(self.minute)
            .or_default() += 1;
        self.waiting[slot(step)].push(Waiting {
            centre,
            bucket: self.minute,
        });
    }

    /// Those who wait look whether they may enter, each every 20 seconds.
    fn look(&mut self, step: u64) {
        let mut still = Vec::new();
        for visitor in std::mem::take(&mut self.waiting[slot(step)]) {
            let is_settled = self.centres[visitor.centre].plan.state.is_settled();
            if is_settled && self.admit(step, visitor.centre, Lane::Bucket(visitor.bucket)) {
                let waiting = &mut self.centres[visitor.centre].report.waiting;
                if let Some(count) = waiting.get_mut(&visitor.bucket) {
                    *count = count.saturating_sub(1);
                }
            } else {
                still.push(visitor);
            }
        }
        self.waiting[slot(step)] = still;
    }

    fn admit(&mut self, step: u64, number: usize, lane: Lane) -> bool {
        let stay = self.scenario.stay * MINUTE * STEPS_PER_SECOND;
        let count = self.centres[number].workers.len();
        // Requests are not spread evenly: some workers get twice as many.
        let worker = usize::try_from(
            self.workers
                .below(count as u64)
                .min(self.workers.below(count as u64)),
        )
        .unwrap_or(0);
        let centre = &mut self.centres[number];
        centre.workers[worker] = Some(step);
        let mut is_from_anywhere = false;
        let admits = match centre.plan.way(lane) {
            Way::Shut => false,
            // Counted like the others, as numbers of the minute.
            Way::Open => {
                *centre.numbers.entry(lane).or_default() += 1;
                *centre.own.entry((worker, lane)).or_default() += 1;
                true
            }
            Way::Bounded(part) => match centre.plan.allowance(part) {
                Some(allowance) => below(centre.own.entry((worker, lane)).or_default(), allowance),
                None => {
                    below(centre.numbers.entry(lane).or_default(), part.here) || {
                        is_from_anywhere =
                            below(self.anywhere.entry(lane).or_default(), part.anywhere);
                        is_from_anywhere
                    }
                }
            },
        };
        if admits {
            centre.report.active += 1;
            centre.leaving.push_back(step + stay);
            *centre.report.admitted.entry(self.minute).or_default() += 1;
            *centre.report.admitted_by_lane.entry(lane).or_default() += 1;
            if is_from_anywhere {
                *centre.report.anywhere_by_lane.entry(lane).or_default() += 1;
            }
        }
        admits
    }
}

/// Who looks at the queue in a step.
fn slot(step: u64) -> usize {
    usize::try_from(step % LOOK).unwrap_or(0)
}

/// Takes the next number, if it is below the bound.
fn below(next: &mut u64, bound: u64) -> bool {
    let is_below = *next < bound;
    if is_below {
        *next += 1;
    }
    is_below
}
