//! Random timers whose handlers fail, panic and are throttled, while the process is killed, the machine loses its power, the
//! clock is set forward and back, others call the object, and it is restored, copied and activated: from one seed each.
//! `ABIDE_SCHEDULE_SEEDS` says how many seeds, `ABIDE_SCHEDULE_FIRST_SEED` the first.

mod timelines;

use std::{collections::BTreeMap, time::Duration};

use abide::{
    prelude::*,
    schedule::{Misfire, Overlap, Phase, Spec},
};
use abide_harness::{Random, setting};

use timelines::Timelines;

use crate::schedule::support::{Deed, World, doing, plain, run, secs};

/// A timer that the object said it has set.
#[derive(Clone)]
enum Set {
    /// Once, at a time; unknown if it is relative.
    Once(Option<i64>),
    /// At a time, and after each interval. With an anchor a clock that is set back moves no time.
    Every {
        first: i64,
        every: i64,
        anchored: bool,
    },
    /// It was canceled. A time comes again for one that moves when the clock is set back.
    Gone { moves: bool },
}

impl Set {
    fn gone(&self) -> Self {
        let moves = match self {
            Self::Once(at) => at.is_none(),
            Self::Every { anchored, .. } => !anchored,
            Self::Gone { moves } => *moves,
        };
        Self::Gone { moves }
    }
}

fn random_spec(random: &mut Random, now: i64) -> (Spec, Set) {
    let deed = Deed {
        // Nine are more than there are attempts.
        fails: [0, 1, 2, 9][random.below(4) as usize],
        panics: random.below(8).saturating_sub(5),
        throttled: random.below(6).saturating_sub(3),
        after: Some(Duration::from_millis(300)),
        ..Deed::default()
    };
    let after = random.below(20_000);
    match random.below(6) {
        0 | 1 => {
            let at = now + i64::from(after);
            (doing(Spec::once("a", at), &deed), Set::Once(Some(at)))
        }
        2 => {
            let wait = Duration::from_millis(after.into());
            (doing(Spec::after("a", wait), &deed), Set::Once(None))
        }
        kind => {
            let every = 1_000 + i64::from(random.below(9_000));
            let anchored = kind == 3;
            let interval = Duration::from_millis(every.unsigned_abs());
            let mut spec = Spec::every("a", interval)
                .misfire(Misfire::All)
                .overlap(Overlap::Queue);
            if anchored {
                spec = spec.starting(now + every);
            }
            let set = Set::Every {
                first: now + every,
                every,
                anchored,
            };
            (doing(spec, &deed), set)
        }
    }
}

/// Another caller calls the object, and needs no answer.
fn call(world: &World, random: &mut Random) {
    let (object, which) = (world.object(), random.below(4));
    drop(tokio::spawn(async move {
        match which {
            0 => drop(object.list(None, 10).await),
            1 => drop(object.failed().await),
            2 => drop(object.history(None, 10).await),
            _ => drop(object.get("00".to_owned()).await),
        }
    }));
}

async fn simulate(seed: u64) {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut world = World::new(plain());
    let mut sets = BTreeMap::new();
    let mut back = 0;
    let mut life = Timelines::default();
    for step in 0..30 {
        life.check(&world, seed, &sets).await;
        match random.below(18) {
            0..=3 => {
                let name = format!("{step:02}");
                let (spec, set) = random_spec(&mut random, world.now());
                if world.object().upsert(name.clone(), spec).await.is_ok() {
                    sets.insert(name, set);
                }
            }
            4 | 5 => {
                world
                    .clock
                    .advance(Duration::from_millis(u64::from(random.below(6_000))));
                for _ in 0..random.below(30) {
                    tokio::task::yield_now().await;
                }
            }
            6 => world.pass(secs(6), Duration::from_millis(1_500)).await,
            7 => world.clock.set_wall(i64::from(random.below(8_000))),
            8 => world = world.killed(),
            9 => world = world.crashed(u64::from(random.below(u32::MAX))),
            10 => {
                let by = 5_500 + i64::from(random.below(10_000));
                back += by;
                world.clock.set_wall(-by);
            }
            11 => call(&world, &mut random),
            12.. if random.below(6) > 0 => {
                life.travel(&world, &mut random, &mut sets).await;
            }
            _ => {
                let name = format!("{:02}", random.below(step + 1));
                let canceled = world.object().cancel(name.clone()).await;
                if canceled.is_ok_and(|canceled| canceled) {
                    sets.entry(name).and_modify(|set| *set = set.gone());
                }
            }
        }
    }
    life.wake(&world, Activation::Continue, &mut sets).await;
    // Times of the wall clock come later if it was set back.
    world
        .pass(
            secs(60) + Duration::from_millis(back.unsigned_abs()),
            secs(1),
        )
        .await;
    for (name, set) in &sets {
        check(&world, seed, name, set, back > 0).await;
    }
    life.check(&world, seed, &sets).await;
    for (timer, due_at, at) in world.object().effects().await.unwrap() {
        // What has gone off, and is retried or was interrupted, may come when an earlier time is shown again.
        assert!(
            at >= due_at || back > 0,
            "seed {seed}: {timer} went off {at}"
        );
    }
    for run in world.object().failed().await.unwrap() {
        // Throttled ones, of which there are two at most, do not count; one more is made alone after a crash.
        assert!((4..=7).contains(&run.attempts), "seed {seed}: {run:?}");
    }
}

/// Each occurrence has had its effect once, or has failed.
async fn check(world: &World, seed: u64, name: &str, set: &Set, set_back: bool) {
    let mut dues = world.dues(name).await;
    let failed = world.object().failed().await.unwrap();
    let failed = failed.iter().filter(|run| run.timer == name);
    dues.extend(failed.map(|run| run.due_at));
    dues.sort_unstable();
    match set {
        Set::Once(at) => {
            let timer = world.timer(name).await;
            assert_eq!(dues.len(), 1, "seed {seed}: {timer:?}");
            assert!(at.is_none_or(|at| dues == [at]), "seed {seed}: {timer:?}");
            assert!(
                matches!(timer.phase, Phase::Ended | Phase::Failed),
                "seed {seed}: {timer:?}"
            );
        }
        Set::Every {
            first,
            every,
            anchored,
        } => {
            let timer = world.timer(name).await;
            // It may be in the middle of its last, and behind by what fails.
            assert!(dues.len() > 3, "seed {seed}: {timer:?}");
            if *anchored || !set_back {
                let count = i64::try_from(dues.len()).unwrap();
                let wanted: Vec<i64> = (0..count).map(|number| first + number * every).collect();
                assert_eq!(dues, wanted, "seed {seed}: {timer:?}");
            }
        }
        Set::Gone { moves } => {
            let all = dues.len();
            dues.dedup();
            assert!(
                (*moves && set_back) || dues.len() == all,
                "seed {seed}: `{name}` {dues:?}"
            );
        }
    }
}

#[test]
fn each_occurrence_takes_effect_once_or_fails_under_any_fault() {
    let first = setting("ABIDE_SCHEDULE_FIRST_SEED", 1);
    for seed in first..first + setting("ABIDE_SCHEDULE_SEEDS", 8) {
        run(simulate(seed));
    }
}
