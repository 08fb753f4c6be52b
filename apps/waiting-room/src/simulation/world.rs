//! Data centres, workers and visitors in steps of a tenth of a second.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{
    random::Random,
    scenario::{MINUTE, STEPS_PER_SECOND, Scenario},
};
use crate::logic::{
    bucket::BucketId,
    division::Division,
    merge::RoomState,
    minute::Minute,
    plan::{Method, Plan, Rules, Source},
    report::{Lane, Report},
    slots::Limits,
};

/// Steps of a minute.
const STEPS: u64 = MINUTE * STEPS_PER_SECOND;
/// Steps between two reports of a data centre to the world.
const EXCHANGE: u64 = 5;
/// Steps between two states that workers get of their data centre.
const REFRESH: u64 = 5;
/// Steps between two looks at the queue.
const LOOK: u64 = 20 * STEPS_PER_SECOND;
/// Admissions of a data centre that are decided before the workers know of them: those of one report.
const UNHEARD: usize = 8;
/// Steps without a request after which a worker is not active.
const IDLE: u64 = MINUTE * STEPS_PER_SECOND;
/// Far in the past there is nothing: minutes begin here.
const FIRST_MINUTE: u64 = 100;

/// What is measured in one run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) visitors: u64,
    pub(super) overshoot: u64,
    pub(super) queued_too_early: u64,
    /// Visitors who were told how long they would wait.
    pub(super) told: u64,
    /// Of them, those who waited more than twice as long.
    pub(super) told_too_little: u64,
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
    /// Visitors whom each worker admitted without a counter in this minute, by lane.
    own: HashMap<(usize, Lane), u64>,
    /// Admissions since the workers got their last state.
    unheard: usize,
}

struct Waiting {
    centre: usize,
    bucket: BucketId,
    since: u64,
    /// The minutes that the visitor was told at first.
    told: Option<f64>,
}

struct World<'a> {
    scenario: &'a Scenario,
    rules: Rules,
    centres: Vec<Centre>,
    /// Those who wait, by the step of the 20 seconds in which they look at the queue.
    waiting: Vec<Vec<Waiting>>,
    /// Visitors who have come while a minute begins, by data centre.
    held: Vec<usize>,
    /// The numbers of each counter in this minute.
    numbers: HashMap<String, Numbers>,
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
        holds_all: false,
        session_minutes: scenario.stay as f64,
        draw: None,
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
                unheard: 0,
            }
        });
        let mut world = Self {
            scenario,
            rules,
            centres: centres.collect(),
            waiting: (0..LOOK).map(|_| Vec::new()).collect(),
            held: Vec::new(),
            numbers: HashMap::new(),
            arrivals: Random::new(seed),
            workers: Random::new(!seed),
            measured: Measured::default(),
            minute: Minute(FIRST_MINUTE),
        };
        // Before the first step all data centres have heard of all others.
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
        let spikes = self.scenario.spike_steps.contains(&step);
        self.leave(step);
        self.keep_workers(step, spikes);
        if step.is_multiple_of(EXCHANGE) {
            self.exchange(step);
        }
        self.arrive_reports(step);
        if step.is_multiple_of(REFRESH) || step.is_multiple_of(MINUTE * STEPS_PER_SECOND) {
            self.refresh();
        }
        let scenario = self.scenario;
        let rates = if spikes {
            &scenario.spike
        } else {
            &scenario.calm
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
        self.numbers.clear();
        for centre in &mut self.centres {
            centre.own.clear();
            centre.report.minute = minute;
            centre.report.admitted_by_lane.clear();
            centre.report.borrowed.clear();
        }
    }

    fn leave(&mut self, step: u64) {
        for centre in &mut self.centres {
            while centre.leaving.front().is_some_and(|at| *at <= step) {
                centre.leaving.pop_front();
                centre.report.active -= 1;
                *centre.report.left.entry(self.minute).or_default() += 1;
            }
        }
    }

    /// Workers are started for a spike and stopped after it, and now and then one is replaced by a new one.
    fn keep_workers(&mut self, step: u64, spikes: bool) {
        let wanted = &self.scenario.workers[usize::from(spikes)];
        for (centre, wanted) in self.centres.iter_mut().zip(wanted.iter().copied()) {
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
        for number in 0..self.centres.len() {
            self.refresh_one(number);
        }
    }

    fn refresh_one(&mut self, number: usize) {
        let centre = &mut self.centres[number];
        centre.unheard = 0;
        let mut reports: Vec<_> = centre.heard.values().cloned().collect();
        reports.push(centre.report.clone());
        let state = RoomState::merge(&centre.report.data_centre, self.minute, reports);
        centre.plan = Plan::new(state, self.rules);
    }

    /// A new visitor comes.
    fn come(&mut self, step: u64, centre: usize) {
        if !self.centres[centre].plan.is_settled() {
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
        let bucket = BucketId::at(FIRST_MINUTE * STEPS + step, STEPS);
        *self.centres[centre]
            .report
            .waiting
            .entry(bucket)
            .or_default() += 1;
        // Its data centre knows of the visitor before the visitor is told.
        self.refresh_one(centre);
        let plan = &self.centres[centre].plan;
        let told = plan.minutes(plan.ahead(bucket).told());
        let told = told.map(|minutes| minutes.max(LOOK as f64 / STEPS as f64));
        self.waiting[slot(step)].push(Waiting {
            centre,
            bucket,
            since: step,
            told,
        });
    }

    /// Those who wait look whether they may enter, each every 20 seconds.
    fn look(&mut self, step: u64) {
        let mut still = Vec::new();
        for visitor in std::mem::take(&mut self.waiting[slot(step)]) {
            let is_settled = self.centres[visitor.centre].plan.is_settled();
            if is_settled && self.admit(step, visitor.centre, Lane::Bucket(visitor.bucket)) {
                let waiting = &mut self.centres[visitor.centre].report.waiting;
                if let Some(count) = waiting.get_mut(&visitor.bucket) {
                    *count = count.saturating_sub(1);
                }
                if let Some(told) = visitor.told {
                    let waited = (step - visitor.since) as f64 / STEPS as f64;
                    self.measured.told += 1;
                    self.measured.told_too_little += u64::from(waited > 2.0 * told);
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
        self.centres[number].workers[worker] = Some(step);
        let centre = &mut self.centres[number];
        let plan = &centre.plan;
        let way = plan.way(lane);
        let counter = match plan.allowance(lane, &way) {
            Some(allowance) => {
                let own = centre.own.entry((worker, lane)).or_default();
                below(own, allowance).then(|| plan.state.data_centre.clone())
            }
            None => plan
                .sources(&way)
                .into_iter()
                .find(|source| {
                    self.numbers
                        .entry(source.counter.clone())
                        .or_default()
                        .take(lane, source)
                })
                .map(|source| source.counter),
        };
        let Some(counter) = counter else { return false };
        let centre = &mut self.centres[number];
        let report = &mut centre.report;
        report.active += 1;
        centre.leaving.push_back(step + stay);
        *report.admitted.entry(self.minute).or_default() += 1;
        *report.admitted_by_lane.entry(lane).or_default() += 1;
        if counter != report.data_centre {
            *report.borrowed.entry(counter).or_default() += 1;
        }
        centre.unheard += 1;
        if centre.unheard >= UNHEARD {
            self.refresh_one(number);
        }
        true
    }
}

/// The numbers that a counter has given in this minute.
#[derive(Default)]
struct Numbers {
    by_lane: HashMap<Lane, u64>,
    all: u64,
}

impl Numbers {
    fn take(&mut self, lane: Lane, source: &Source) -> bool {
        let in_lane = self.by_lane.entry(lane).or_default();
        let is_left = source.in_lane.is_none_or(|most| *in_lane < most)
            && source.in_all.is_none_or(|most| self.all < most);
        if is_left {
            *in_lane += 1;
            self.all += 1;
        }
        is_left
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
