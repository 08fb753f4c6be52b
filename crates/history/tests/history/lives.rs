//! Random lives of machines that share a place, on a store that fails at random. A judge looks at every state of the store.
//! `ABIDE_HISTORY_SEEDS` says how many lives, `ABIDE_HISTORY_FIRST_SEED` the first.

use std::time::Duration;

use abide_history::{Options, Uploader};
use abide_s3::{Bucket, Faults, Random};
use tokio::time::sleep;

use crate::{
    judge::Judge,
    machine::{Machine, downloaded, options, taking_over, until, until_copied},
    net::some_store,
};

pub(crate) fn faults(random: &mut Random) -> Faults {
    if random.percent(20) {
        return Faults::default();
    }
    let mut percent = |most: u64| {
        if random.percent(50) {
            random.below(most) as u8
        } else {
            0
        }
    };
    Faults {
        slow: percent(60),
        slow_down: percent(15),
        cut_before: percent(10),
        cut_after: percent(20),
        late: percent(15),
        conflict: percent(10),
        delay: Duration::from_millis(1 + u64::from(percent(255)) * 20),
        expired: percent(20) == 19,
        full: percent(20) == 19,
        undeletable: percent(20) == 19,
        unreachable: percent(20) == 19,
        without_conditions: false,
    }
}

pub(crate) fn some_options(random: &mut Random, take_over: bool) -> Options {
    let part = [16, 64, 1000][random.below(3) as usize];
    let keep = [0, 5, 60][random.below(3) as usize];
    let base = if take_over { taking_over() } else { options() };
    Options {
        part,
        stage: [50, 500, 1 << 30][random.below(3) as usize],
        at_once: 1 + random.below(4) as usize,
        keep: Duration::from_secs(keep),
        interval: Duration::from_secs(random.below(10)),
        ..base
    }
}

/// Lets the tasks run for a while: some steps, or some time.
pub(crate) async fn pass(random: &mut Random) {
    if random.percent(50) {
        for _ in 0..random.below(60) {
            tokio::task::yield_now().await;
        }
    } else {
        sleep(Duration::from_millis(random.below(20_000))).await;
    }
}

async fn live(seed: u64) {
    let mut random = Random(seed);
    let bucket = Bucket::new(random.draw());
    bucket.set_page(1 + random.below(10) as usize);
    let judge = Judge::of(&bucket);
    let store = some_store(&bucket, seed);
    let mut nodes: Vec<(Machine, Option<Uploader>)> = vec![(Machine::new(), None)];
    for _ in 0..60 {
        let index = random.below(nodes.len() as u64) as usize;
        match random.below(100) {
            0..45 => nodes[index].0.history.live(&mut random),
            45..60 => {
                // A kill, perhaps a start.
                nodes[index].1 = None;
                if random.percent(80) {
                    let take_over = random.percent(30);
                    let options = some_options(&mut random, take_over);
                    nodes[index].1 = Some(nodes[index].0.start(&store, options));
                }
            }
            60..64 if nodes.len() < 3 => {
                let copy = nodes[index].0.copy();
                nodes.push((copy, None));
            }
            64..67 if nodes.len() < 3 => nodes.push((Machine::new(), None)),
            67..82 => bucket.set_faults(faults(&mut random)),
            82..85 => bucket.settle(),
            _ => pass(&mut random).await,
        }
    }
    // The faults end, and one of them continues or takes over.
    bucket.set_faults(Faults::default());
    bucket.settle();
    for (_, uploader) in &mut nodes {
        *uploader = None;
    }
    let (machine, others) = nodes.split_first_mut().unwrap();
    let machine = &machine.0;
    machine.history.live(&mut random);
    let uploader = machine.start(&store, some_options(&mut random, true));
    until_copied(&uploader, &store, &machine.history).await;
    machine.history.live(&mut random);
    until_copied(&uploader, &store, &machine.history).await;
    // All others are refused: those that owned it, and copies of this one.
    for (other, _) in others {
        let refused = other.start(&store, some_options(&mut random, false));
        until(&refused, |status| status.superseded.is_some()).await;
    }
    assert!(uploader.status().superseded.is_none());
    assert_eq!(downloaded(&store).await, machine.history.runs());
    judge.assert_content(&bucket);
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Runs a life for each seed, each on its own clock.
pub(crate) fn each_seed<F: Future<Output = ()>>(live: impl Fn(u64) -> F) {
    let first = setting("ABIDE_HISTORY_FIRST_SEED", 0);
    for seed in first..first + setting("ABIDE_HISTORY_SEEDS", 24) {
        println!("seed {seed}");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(live(seed));
    }
}

#[test]
fn random_lives_keep_every_promise() {
    each_seed(live);
}
