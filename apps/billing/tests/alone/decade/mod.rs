//! Years of subscriptions in seconds: cards that fail, a gateway that behaves badly, webhooks that come twice, late or never,
//! changes of plan, a node that is killed at random moments and loses its power, and a read model that is stopped, slow and
//! gone.
//!
//! What must hold stands in `checks`. `BILLING_SUBSCRIPTIONS`, `BILLING_YEARS`, `BILLING_CRASHES`, `BILLING_AILMENTS` (of the read
//! model) and `BILLING_SEED` set the size, and `BILLING_YEARLY` how many pay by the year beside every six of other lengths. Objects are on a disk in memory; with `BILLING_DIR` they are in files there, which many
//! of them want.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod ailments;
mod checks;
mod disk;
mod life;
mod model;
mod read_model;
mod world;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use abide_harness::{Random, setting};

use ailments::Ailments;
use life::Life;
use world::World;

/// How far the clock is moved at a time while nothing is due.
const STEP: Duration = Duration::from_hours(6);

/// Steps of a day.
const STEPS_A_DAY: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn years_of_billing_are_exact_to_the_cent_despite_faults() {
    let seed = setting("BILLING_SEED", 1);
    let subscriptions = setting("BILLING_SUBSCRIPTIONS", 12);
    let years = setting("BILLING_YEARS", 2);
    let crashes = setting("BILLING_CRASHES", 6);
    let ailments = setting("BILLING_AILMENTS", 6);
    let dir = std::env::var_os("BILLING_DIR").map(PathBuf::from);
    println!("{subscriptions} subscriptions, {years} years, {crashes} crashes, seed {seed}");
    let begun = Instant::now();
    let mut random = Random::new(seed);
    let mut world = match &dir {
        Some(dir) => World::in_folder(seed, dir),
        None => World::new(seed),
    };
    let mut life = Life::begin(&world, subscriptions).await;
    let steps = years * 365 * STEPS_A_DAY;
    let every = (steps / (crashes + 1)).max(1);
    let mut ailments = Ailments::new(ailments, steps);
    let start = world.now();
    for step in 1..=steps {
        world.clock.advance(STEP);
        if step % every == 0 && step / every <= crashes {
            // In the middle of what this step makes due.
            let moment = Duration::from_micros(u64::from(random.below(3_000)));
            tokio::time::sleep(moment).await;
            world = world.dies(&mut random);
        }
        world.settle().await;
        ailments.go_on(&world, step, &mut random).await;
        life.goes_on(&world, &mut random).await;
        if step % (steps / 50).max(1) == 0 {
            println!(
                "{} %: {:.1} s, {:?}",
                step * 100 / steps,
                begun.elapsed().as_secs_f64(),
                world.gateway.tally()
            );
        }
    }
    // Customers buy nothing any more; what is on its way arrives.
    for _ in 0..2 * STEPS_A_DAY {
        world.clock.advance(STEP);
        world.settle().await;
        life.ends(&world, &mut random).await;
    }
    ailments.end(&world).await;
    let passed = Duration::from_millis(world.now().abs_diff(start));
    let simulated = begun.elapsed();
    let world = world.stands_still();
    let found = checks::all(&world, &life).await;
    println!(
        "{found:?}\n{ailments:?}\n{:.2} years in {:.1} s ({:.0} times as fast), checked in {:.1} s",
        passed.as_secs_f64() / 86_400.0 / 365.25,
        simulated.as_secs_f64(),
        passed.as_secs_f64() / simulated.as_secs_f64(),
        begun.elapsed().saturating_sub(simulated).as_secs_f64()
    );
}
