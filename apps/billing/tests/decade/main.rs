//! Years of subscriptions in seconds: cards that fail, a gateway that behaves badly, webhooks that come twice or never,
//! changes of plan, and a node that is killed at random moments and loses its power.
//!
//! What must hold stands in `checks`. `BILLING_SUBSCRIPTIONS`, `BILLING_YEARS`, `BILLING_CRASHES` and `BILLING_SEED` set the
//! size; ten years of 1,000 are asked for with `BILLING_SUBSCRIPTIONS=1000 BILLING_YEARS=10`.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod checks;
mod life;
mod world;

use std::time::{Duration, Instant};

use abide_harness::{Random, setting};

use life::Life;
use world::World;

/// How far the clock is moved at a time while nothing is due.
const STEP: Duration = Duration::from_hours(6);

/// Steps of a day.
const STEPS_A_DAY: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn years_of_subscriptions_are_billed_to_the_last_cent_whatever_happens_to_the_node() {
    let seed = setting("BILLING_SEED", 1);
    let subscriptions = setting("BILLING_SUBSCRIPTIONS", 12);
    let years = setting("BILLING_YEARS", 2);
    let crashes = setting("BILLING_CRASHES", 6);
    println!("{subscriptions} subscriptions, {years} years, {crashes} crashes, seed {seed}");
    let begun = Instant::now();
    let mut random = Random::new(seed);
    let mut world = World::new(seed);
    let mut life = Life::begin(&world, subscriptions).await;
    let steps = years * 365 * STEPS_A_DAY;
    let every = (steps / (crashes + 1)).max(1);
    for step in 1..=steps {
        if step % every == 0 && step / every <= crashes {
            // In the middle of what this step makes due.
            world.clock.advance(STEP);
            let moment = Duration::from_micros(u64::from(random.below(3_000)));
            tokio::time::sleep(moment).await;
            world = world.dies(&mut random);
        } else {
            world.clock.advance(STEP);
        }
        world.settle().await;
        life.goes_on(&world, &mut random).await;
        if step % (steps / 10).max(1) == 0 {
            println!(
                "{} %: {:.1} s, {:?}",
                step * 100 / steps,
                begun.elapsed().as_secs_f64(),
                world.gateway.tally()
            );
        }
    }
    // Nobody buys anything any more; what is on its way arrives.
    for _ in 0..2 * STEPS_A_DAY {
        world.clock.advance(STEP);
        world.settle().await;
        world.hear().await;
    }
    let simulated = begun.elapsed();
    let found = checks::all(&world, &life).await;
    println!(
        "{found:?}\n{} simulated in {:.1} s, checked in {:.1} s",
        if years == 1 {
            "a year".to_owned()
        } else {
            format!("{years} years")
        },
        simulated.as_secs_f64(),
        begun.elapsed().saturating_sub(simulated).as_secs_f64()
    );
}
