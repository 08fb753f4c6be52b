//! Random lives of a room with several data centres, against a model that only knows who was let in and when they were heard last.
//!
//! Data centres, counters and the world are the real objects; time, links, visitors and kills are made up from a seed. Visitors come in
//! bursts and ask again whenever they like. `WAITING_ROOM_LIVES` sets the number of lives, `WAITING_ROOM_LIVES_SEED` the first seed.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::collections::{BTreeMap, VecDeque};

use abide::{Host, server::LocalHost};
use abide_harness::{Random, run, setting};
use waiting_room::{
    logic::{
        bucket::BucketId,
        division::Division,
        merge::RoomState,
        minute::Minute,
        plan::{Method, Plan, Rules},
        report::{Lane, Report},
        slots::Limits,
    },
    objects::{Claim, DataCentre, Happening, Number, Terms, TicketCounter, World},
    ticket::VisitorId,
};

const MINUTE: u64 = 60_000;
const STEP: u64 = 500;
const SESSION: u64 = 2 * MINUTE;

/// One life of a room.
struct Life {
    host: LocalHost,
    random: Random,
    rules: Rules,
    now: u64,
    /// Steps that a message takes there and back.
    delay: u64,
    centres: Vec<Centre>,
    next_visitor: u64,
    /// The model: when each visitor who was let in was heard last, and the admissions of each minute.
    inside: BTreeMap<u64, u64>,
    admitted: BTreeMap<Minute, u64>,
    asked: u64,
}

struct Centre {
    terms: Terms,
    plan: Plan,
    waiting: Vec<(u64, BucketId)>,
    /// What the others reported, and when it is heard.
    underway: VecDeque<(u64, Vec<Report>)>,
}

fn id(visitor: u64) -> VisitorId {
    VisitorId((u128::from(visitor)).to_be_bytes())
}

/// A number below a bound.
fn below(random: &mut Random, bound: u64) -> u64 {
    random.below(u32::try_from(bound).unwrap()).into()
}

impl Life {
    async fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let host = Host::open_in_memory()
            .object::<DataCentre>()
            .object::<World>()
            .object::<TicketCounter>();
        let host = host.start_local().await.unwrap();
        let limit = 20 + below(&mut random, 80);
        let rules = Rules {
            limits: Limits {
                total_active_users: limit,
                new_users_per_minute: 10 + below(&mut random, 2 * limit),
            },
            division: Division::Counters,
            method: Method::Fifo,
            holds_all: false,
            session_minutes: 2.0,
            draw: None,
        };
        let names = (0..2 + below(&mut random, 4)).map(|number| format!("dc-{number}"));
        let now = 1_000 * MINUTE;
        let centres = names.map(|name| Centre {
            plan: Plan::new(RoomState::merge(&name, Minute(0), Vec::new()), rules),
            terms: Terms {
                room: "shop".to_owned(),
                data_centre: name,
                minute_millis: MINUTE,
                session_millis: SESSION,
                patience_millis: MINUTE,
                draw: None,
            },
            waiting: Vec::new(),
            underway: VecDeque::new(),
        });
        let mut life = Self {
            host,
            rules,
            now,
            delay: below(&mut random, 3),
            centres: centres.collect(),
            random,
            next_visitor: 0,
            inside: BTreeMap::new(),
            admitted: BTreeMap::new(),
            asked: 0,
        };
        for _ in 0..2 {
            for centre in 0..life.centres.len() {
                life.exchange(centre).await;
                life.hear(centre, u64::MAX).await;
            }
        }
        life
    }

    fn object(&self, centre: usize) -> abide::Stub<DataCentre> {
        let name = &self.centres[centre].terms.data_centre;
        let objects = self.host.env().object::<DataCentre>();
        objects.get_by_name(&format!("shop/{name}"))
    }

    async fn report(&mut self, centre: usize, told: Vec<Happening>) -> Vec<VisitorId> {
        let terms = self.centres[centre].terms.clone();
        let object = self.object(centre);
        let reported = object.report(terms, self.now, "worker-1".to_owned(), told);
        let reported = reported.await.unwrap();
        self.centres[centre].plan = Plan::new(reported.state, self.rules);
        reported.late
    }

    async fn exchange(&mut self, centre: usize) {
        let terms = self.centres[centre].terms.clone();
        let report = self.object(centre).summary(terms, self.now);
        let report = report.await.unwrap();
        let world = self.host.env().object::<World>().get_by_name("shop");
        let others = world.exchange(report).await.unwrap();
        let at = self.now + self.delay * STEP;
        self.centres[centre].underway.push_back((at, others));
    }

    async fn hear(&mut self, centre: usize, until: u64) {
        while let Some((at, _)) = self.centres[centre].underway.front()
            && *at <= until
        {
            let (_, others) = self.centres[centre].underway.pop_front().unwrap();
            self.object(centre).hear(others).await.unwrap();
        }
        self.report(centre, Vec::new()).await;
    }

    /// A visitor asks. True if let in.
    async fn ask(&mut self, centre: usize, visitor: u64, lane: Lane) -> bool {
        self.asked += 1;
        let plan = self.centres[centre].plan.clone();
        let own = plan.state.data_centre.clone();
        for source in plan.sources(&plan.way(lane)) {
            let is_borrowed = source.counter != own;
            let claim = Claim {
                minute: plan.minute(),
                visitor: id(visitor),
                lane,
                most_in_lane: source.in_lane,
                most: source.in_all,
                is_borrowed,
            };
            let name = format!("shop/{}/{}", source.counter, plan.minute().0 % 2_048);
            let counters = self.host.env().object::<TicketCounter>();
            let number = counters.get_by_name(&name).take(claim).await;
            if number.unwrap() != Number::Given {
                continue;
            }
            // The worker is killed before it reports, and the visitor hears nothing.
            if below(&mut self.random, 200) == 0 {
                return false;
            }
            let admitted = Happening::Admitted {
                visitor: id(visitor),
                minute: plan.minute(),
                lane,
                borrowed_from: is_borrowed.then_some(source.counter),
            };
            let refused = self.report(centre, vec![admitted]).await;
            assert!(refused.is_empty(), "no minute ends within a step");
            self.inside.insert(visitor, self.now);
            *self.admitted.entry(plan.minute()).or_default() += 1;
            return true;
        }
        false
    }

    async fn step(&mut self) {
        self.now += STEP;
        let count = self.centres.len() as u64;
        for centre in 0..self.centres.len() {
            self.exchange(centre).await;
        }
        for centre in 0..self.centres.len() {
            self.hear(centre, self.now).await;
        }
        if below(&mut self.random, 400) == 0 {
            let centre = usize::try_from(below(&mut self.random, count)).unwrap();
            let terms = self.centres[centre].terms.clone();
            let resumed = self.object(centre).resume(terms, self.now);
            resumed.await.unwrap();
        }
        // Calm, or a burst in one data centre, or in all.
        let (burst, of) = (below(&mut self.random, 40), below(&mut self.random, count));
        for centre in 0..self.centres.len() {
            if !self.centres[centre].plan.is_settled() {
                continue;
            }
            let comes = match burst {
                0 => below(&mut self.random, 60),
                1 if of == centre as u64 => below(&mut self.random, 150),
                _ => u64::from(below(&mut self.random, 4) == 0),
            };
            for _ in 0..comes {
                let visitor = self.next_visitor;
                self.next_visitor += 1;
                if !self.ask(centre, visitor, Lane::New).await {
                    let bucket = BucketId::at(self.now, MINUTE);
                    self.centres[centre].waiting.push((visitor, bucket));
                    let visitor = id(visitor);
                    let joined = Happening::Joined {
                        visitor,
                        minute: Minute::at(self.now, MINUTE),
                        bucket,
                    };
                    self.report(centre, vec![joined]).await;
                }
            }
            let (mut still, mut looked) = (Vec::new(), Vec::new());
            for (visitor, bucket) in std::mem::take(&mut self.centres[centre].waiting) {
                let asks = below(&mut self.random, 20) == 0;
                if asks && self.ask(centre, visitor, Lane::Bucket(bucket)).await {
                    continue;
                }
                let gives_up = below(&mut self.random, 500) == 0;
                if !gives_up {
                    still.push((visitor, bucket));
                }
                if asks {
                    let visitor = id(visitor);
                    looked.push(Happening::Looked { visitor, bucket });
                }
            }
            self.centres[centre].waiting = still;
            self.report(centre, looked).await;
        }
        self.check();
    }

    fn check(&mut self) {
        let now = self.now;
        self.inside.retain(|_, seen| *seen + SESSION >= now);
        let limits = self.rules.limits;
        let inside = self.inside.len() as u64;
        // Shares are rounded: as slots become free, a data centre may have used one that now is another's.
        let rounding = self.centres.len() as u64;
        assert!(
            inside <= limits.total_active_users + rounding,
            "{inside} are inside of {limits:?}"
        );
        let most = self.admitted.values().max().copied().unwrap_or(0);
        assert!(
            most <= limits.new_users_per_minute + rounding,
            "{most} in one minute of {limits:?}"
        );
    }
}

#[test]
fn random_lives_of_several_data_centres_keep_both_limits() {
    run(async {
        let lives = setting("WAITING_ROOM_LIVES", 3);
        let first = setting("WAITING_ROOM_LIVES_SEED", 1);
        for seed in first..first + lives {
            let mut life = Life::new(seed).await;
            for _ in 0..4 * MINUTE / STEP {
                life.step().await;
            }
            let waiting: usize = life.centres.iter().map(|centre| centre.waiting.len()).sum();
            println!(
                "seed {seed}: {} data centres, {:?}, {} visitors, asked {} times, {waiting} wait",
                life.centres.len(),
                life.rules.limits,
                life.next_visitor,
                life.asked,
            );
        }
    });
}
