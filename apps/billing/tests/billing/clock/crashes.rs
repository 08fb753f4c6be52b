//! Kills and power failures, at random, while payments fail at random and the clock is set back now and then.

use abide_harness::{Random, run, setting};
use billing::states::Verdict;

use crate::clock::support::{DAY, HOUR, World, date, monthly};

/// The syncs of a period's start: of its alarm's attempt, of its timer's, of what it writes, and some more.
const SYNCS: u64 = 6;

/// How a payment ends: the same for the same payment, however often it is asked.
fn luck(id: &str, seed: u64) -> Verdict {
    let sum = id.bytes().fold(seed, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    if Random::new(sum).below(3) == 0 {
        Verdict::Failed
    } else {
        Verdict::Paid
    }
}

async fn simulate(seed: u64) {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut world = World::starting("2027-01-31T10:00:00Z").await;
    world.bank.answer(move |intent| {
        // The first has to be paid, or there is nothing to see.
        let first = intent.invoice.ends_with("_0");
        if first {
            Verdict::Paid
        } else {
            luck(&format!("{}{}", intent.invoice, intent.attempt), seed)
        }
    });
    world.subscribe(monthly(1_000)).await;
    world.rest().await;
    let end = date("2029-01-31T10:00:00Z");
    while world.now() < end {
        let days = i64::from(random.below(60) + 1);
        let at = world.now().plus(days * DAY).min(end);
        match random.below(4) {
            0 => {
                // In the middle of whatever happens then.
                world.jump_to_alarm(at);
                for _ in 0..random.below(40) {
                    tokio::task::yield_now().await;
                }
                let power = (random.below(2) == 0).then(|| u64::from(random.below(u32::MAX)));
                world = world.dies(power).await;
                if random.below(2) == 0 {
                    world.set_back(i64::from(random.below(48)) * HOUR);
                }
                world.rest().await;
            }
            _ => world.until(at).await,
        }
    }
    world.until(end.plus(30 * DAY)).await;
    world.check().await;
    // No period is left out, and none is billed twice.
    let periods = world.periods().await;
    let through: Vec<u32> = (0..u32::try_from(periods.len()).unwrap()).collect();
    assert_eq!(periods, through, "seed {seed}");
    assert!(periods.len() >= 24, "seed {seed}: {periods:?}");
    let billed = world.billed().await;
    for number in &billed {
        let invoice = world.invoice(*number).await.expect("it was created");
        let owed = world.owes(*number).await;
        assert_eq!(
            invoice.state == "paid",
            !owed,
            "seed {seed}: invoice {number} is {}",
            invoice.state
        );
    }
    assert!(billed.is_sorted_by(|a, b| a < b), "seed {seed}: {billed:?}");
}

#[test]
fn each_period_is_billed_once_through_two_years_of_failures_and_kills() {
    let first = setting("ABIDE_CLOCK_FIRST_SEED", 1);
    for seed in first..first + setting("ABIDE_CLOCK_SEEDS", 4) {
        run(simulate(seed));
    }
}

#[test]
fn no_period_is_skipped_after_a_kill_and_a_clock_set_back() {
    for syncs in 0..SYNCS {
        run(async {
            let world = World::starting("2027-01-31T10:00:00Z").await;
            world.subscribe(monthly(1_000)).await;
            world.until(date("2027-02-20T00:00:00Z")).await;
            world.stalls_after(syncs).await;
            let world = world.killed().await;
            world.set_back(2 * DAY);
            world.until(date("2027-04-10T00:00:00Z")).await;
            assert_eq!(world.periods().await, [0, 1, 2], "after {syncs} syncs");
            assert_eq!(world.billed().await, [0, 1, 2], "after {syncs} syncs");
            assert_eq!(world.bank.begun().len(), 3, "after {syncs} syncs");
            world.check().await;
        });
    }
}
