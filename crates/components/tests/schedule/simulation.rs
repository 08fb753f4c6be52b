//! Random timers whose handlers fail and panic, while the process is killed, the machine loses its power and the clock is
//! set forward: from one seed each. `ABIDE_SCHEDULE_SEEDS` says how many seeds, `ABIDE_SCHEDULE_FIRST_SEED` the first.

use std::{collections::BTreeMap, time::Duration};

use abide::schedule::{Misfire, Overlap, Phase, Spec};
use abide_harness::{Random, setting};

use crate::support::{Deed, World, doing, plain, run, secs};

/// A timer that the object said it has set: when it goes off first, and after which time again.
struct Set {
    first: i64,
    every: Option<i64>,
}

fn random_spec(random: &mut Random, now: i64) -> (Spec, Set) {
    let deed = Deed {
        // Nine are more than there are attempts.
        fails: [0, 1, 2, 9][random.below(4) as usize],
        panics: random.below(8).saturating_sub(5),
        ..Deed::default()
    };
    let after = i64::from(random.below(20_000));
    if random.below(3) > 0 {
        let first = now + after;
        let set = Set { first, every: None };
        return (doing(Spec::once("a", first), &deed), set);
    }
    let every = 1_000 + i64::from(random.below(9_000));
    let spec = Spec::every("a", Duration::from_millis(every.unsigned_abs()))
        .misfire(Misfire::All)
        .overlap(Overlap::Queue);
    let set = Set {
        first: now + every,
        every: Some(every),
    };
    (doing(spec, &deed), set)
}

async fn simulate(seed: u64) {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut world = World::new(plain());
    let mut sets = BTreeMap::new();
    for step in 0..30 {
        match random.below(10) {
            0..=3 => {
                let name = format!("{step:02}");
                let (spec, set) = random_spec(&mut random, world.now());
                if world
                    .object()
                    .upsert(name.clone(), spec)
                    .await
                    .is_ok_and(|set| set.is_ok())
                {
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
            _ => world = world.crashed(u64::from(random.below(u32::MAX))),
        }
    }
    world.pass(secs(60), secs(1)).await;
    let failed = world.object().failed().await.unwrap().unwrap();
    for (name, set) in &sets {
        let mut dues = world.dues(name).await;
        // Each occurrence has had its effect once, or has failed.
        dues.extend(
            failed
                .iter()
                .filter(|run| run.timer == *name)
                .map(|run| run.due_at),
        );
        dues.sort_unstable();
        let timer = world.timer(name).await;
        let Some(every) = set.every else {
            assert_eq!(dues, [set.first], "seed {seed}: {timer:?}");
            assert!(
                matches!(timer.phase, Phase::Ended | Phase::Failed),
                "seed {seed}: {timer:?}"
            );
            continue;
        };
        let count = i64::try_from(dues.len()).unwrap();
        let wanted: Vec<i64> = (0..count)
            .map(|number| set.first + number * every)
            .collect();
        assert_eq!(dues, wanted, "seed {seed}: {timer:?}");
        // It may be in the middle of its last, and behind by what fails.
        assert!(count > 3, "seed {seed}: {timer:?}");
    }
    for (timer, due_at, at) in world.object().effects().await.unwrap().unwrap() {
        assert!(at >= due_at, "seed {seed}: {timer} went off {at}");
    }
    for run in failed {
        assert_eq!(run.attempts, 4, "seed {seed}: {run:?}");
    }
}

#[test]
fn each_occurrence_has_its_effect_exactly_once_or_has_failed_whatever_happens() {
    let first = setting("ABIDE_SCHEDULE_FIRST_SEED", 1);
    for seed in first..first + setting("ABIDE_SCHEDULE_SEEDS", 8) {
        run(simulate(seed));
    }
}
