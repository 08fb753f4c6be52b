//! A chain compared with an in-memory list, through kills and power failures.

use std::time::Duration;

use abide::outcomes::{OutcomesOptions, Until};
use abide_harness::{Random, setting};
use serde_json::{Value, json};

use crate::outcomes::support::World;

/// What the chain should come to: the balance after each outcome, and when it was written.
#[derive(Default)]
struct Model {
    balances: Vec<i64>,
    times: Vec<i64>,
    state: &'static str,
}

impl Model {
    fn balance(&self) -> i64 {
        self.balances.last().copied().unwrap_or(0)
    }

    /// Whether a transition is to be taken; then it is.
    fn takes(&mut self, action: &str, outcome: &str, amount: i64, now: i64) -> bool {
        let balance = self.balance();
        let (balance, state) = match (self.state, action, outcome) {
            ("fresh", "open", "opened") => (balance, "open"),
            ("open", "deposit", "credited")
                if balance + amount <= 1_000_000 && balance + amount != 666 =>
            {
                (balance + amount, "open")
            }
            ("open", "withdraw", "debited") if amount <= balance && balance - amount != 666 => {
                (balance - amount, "open")
            }
            ("open", "close", "closed") => (balance, "closed"),
            _ => return false,
        };
        let now = self.times.last().map_or(now, |last| now.max(*last));
        self.balances.push(balance);
        self.times.push(now);
        self.state = state;
        true
    }

    /// What is to be seen at an outcome.
    fn at(&self, seq: usize) -> (i64, i64) {
        let balance = seq.checked_sub(1).map_or(0, |index| self.balances[index]);
        (number(seq), balance)
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap()
}

async fn check(world: &World, model: &Model, random: &mut Random, note: &str) {
    let last = model.balances.len();
    let (seq, state, balance, _) = world.seen().await;
    assert_eq!((seq, balance), model.at(last), "{note}");
    assert_eq!(state, model.state, "{note}");
    let past = random.below(u32::try_from(last).unwrap() + 1) as usize;
    let seen = world.seen_at(Until::Seq(number(past))).await;
    assert_eq!((seen.0, seen.2), model.at(past), "{note}: at {past}");
    if let Some(time) = model.times.get(past) {
        // The last outcome at that time.
        let until = model.times.partition_point(|at| at <= time);
        let seen = world.seen_at(Until::Time(*time)).await;
        assert_eq!((seen.0, seen.2), model.at(until), "{note}: at time {time}");
    }
    world.bank().check().await.unwrap();
}

#[tokio::test]
async fn a_chain_is_what_was_acknowledged_whatever_happens_to_the_node() {
    for seed in 1..=setting("ABIDE_OUTCOMES_SEEDS", 12) {
        let mut random = Random::new(seed);
        let options = OutcomesOptions::default()
            .snapshot_every([None, Some(1), Some(7)][random.below(3) as usize]);
        let mut world = World::with(options);
        let mut model = Model {
            state: "fresh",
            ..Model::default()
        };
        for step in 0..120 {
            let note = format!("seed {seed}, step {step}");
            world
                .clock
                .advance(Duration::from_millis(500) * random.below(3));
            let amount = [1, 7, 100, 666, 1_000_001][random.below(5) as usize];
            let (action, outcome, data) = match random.below(40) {
                0..=3 => ("open", "opened", Value::Null),
                4..=19 => ("deposit", "credited", json!(amount)),
                20..=29 => ("withdraw", "debited", json!(amount)),
                30..=32 => ("withdraw", "credited", json!(amount)),
                33 if step > 100 => ("close", "closed", Value::Null),
                34 => {
                    world = world.killed();
                    continue;
                }
                35 => {
                    world = world.crashed(u64::from(random.below(1 << 30)));
                    continue;
                }
                36 if model.state == "open" && ![661, 664].contains(&model.balance()) => {
                    let undone = world.bank().undone(vec![2, 3]).await.unwrap();
                    let (seq, _, balance, _) = undone;
                    assert_eq!((seq, balance), model.at(model.balances.len()), "{note}");
                    continue;
                }
                37 => {
                    world.clock.set_wall(-i64::from(random.below(700)));
                    continue;
                }
                _ => {
                    check(&world, &model, &mut random, &note).await;
                    continue;
                }
            };
            let made = world
                .bank()
                .transition(action.to_owned(), outcome.to_owned(), data)
                .await;
            let taken = model.takes(action, outcome, amount, world.now());
            assert_eq!(made.is_ok(), taken, "{note}: {action} {amount}: {made:?}");
        }
        check(&world, &model, &mut random, &format!("seed {seed}")).await;
        // The hook has seen each outcome once, with what it led to.
        let projected = world.projected().await;
        let balances = (1..).zip(model.balances);
        assert_eq!(projected, balances.collect::<Vec<_>>(), "seed {seed}");
    }
}
