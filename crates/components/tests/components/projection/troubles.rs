//! A read model that is down or stuck, a full queue, kills and power failures.

use std::time::Duration;

use abide::{
    projection::queue_options,
    queue::{DeadLetter, RetryPolicy},
};

use crate::projection::support::{Mood, World, run};

#[test]
fn a_read_model_that_is_down_blocks_no_object_and_catches_up() {
    run(async {
        let world = World::new();
        for (round, mood) in (1..).zip([Mood::Down, Mood::Stuck]) {
            world.model.set(mood);
            for name in ["ada", "bob"] {
                world.deposit(name, 10).await;
            }
            world
                .until("it was tried", async || {
                    world.counts().await.messages > 0
                        && !world.model.batches.lock().unwrap().is_empty()
                })
                .await;
            world.clock.advance(Duration::from_secs(40));
            world.deposit("ada", 1).await;
            world.model.set(Mood::Well);
            world
                .until_balances(&[("ada", 11 * round), ("bob", 10 * round)])
                .await;
            world.model.batches.lock().unwrap().clear();
        }
        assert_eq!(world.counts().await.dead, 0);
    });
}

#[test]
fn rows_wait_for_an_unready_read_model_through_any_number_of_tries() {
    run(async {
        let options =
            queue_options().retry(RetryPolicy::Schedule(vec![Duration::from_millis(100)]));
        let world = World::with_options(options);
        world.deposit("ada", 10).await;
        world.until_balances(&[("ada", 10)]).await;
        assert_eq!(world.counts().await.failing, 0);
        for mood in [Mood::Down, Mood::Stuck] {
            world.model.batches.lock().unwrap().clear();
            world.model.set(mood);
            world.deposit("ada", 10).await;
            world
                .until("they were tried often, or for long", async || {
                    world.model.batches.lock().unwrap().len() >= 8
                })
                .await;
        }
        let counts = world.counts().await;
        assert_eq!((counts.messages, counts.dead), (4, 0));
        assert!(counts.failing > 0, "it is seen");
        let why = counts.last_error.unwrap();
        assert!(why.contains("not ready"), "{why}");
        world.model.set(Mood::Well);
        world.until_balances(&[("ada", 30)]).await;
        world
            .until("nothing fails", async || world.counts().await.failing == 0)
            .await;
    });
}

#[test]
fn a_row_refused_by_the_read_model_is_a_dead_letter() {
    run(async {
        let world = World::new();
        world.model.set(Mood::Superstitious);
        world.queue().pause().await.unwrap();
        world.deposit("ada", 13).await;
        world.deposit("bob", 12).await;
        world
            .until("all wait", async || world.counts().await.messages == 4)
            .await;
        world.queue().resume().await.unwrap();
        world.until_balances(&[("bob", 12)]).await;
        world
            .until("two are dead", async || world.counts().await.dead == 2)
            .await;
        let letters = world.queue().dead_letters(10).await.unwrap();
        let refused = |letter: &DeadLetter| letter.error.contains("the read model refuses it: 13");
        assert!(letters.iter().all(refused), "{letters:?}");
        // Once the read model accepts the rows, an operator has them written.
        world.model.set(Mood::Well);
        world.queue().redrive_all().await.unwrap();
        world.until_balances(&[("ada", 13), ("bob", 12)]).await;
    });
}

#[test]
fn of_several_changes_of_a_row_the_newest_is_written() {
    run(async {
        let world = World::new();
        world.queue().pause().await.unwrap();
        for balance in 1..=3 {
            world.deposit("ada", 1).await;
            world
                .until("the change waits", async || {
                    world.counts().await.messages == 2 * balance
                })
                .await;
        }
        world.queue().resume().await.unwrap();
        world.until_balances(&[("ada", 3)]).await;
    });
}

#[test]
fn a_full_queue_blocks_no_object_and_feeds_keep_the_newest_rows() {
    run(async {
        let options = queue_options().shards(1).max_messages(2);
        let world = World::with_options(options);
        world.queue().pause().await.unwrap();
        world.deposit("ada", 1).await;
        world
            .until("the queue is full", async || {
                world.counts().await.messages == 2
            })
            .await;
        for _ in 0..20 {
            world.deposit("bob", 1).await;
        }
        world.clock.advance(Duration::from_secs(10));
        // One row of the account, and each deposit.
        assert_eq!(world.bank("bob").waiting().await.unwrap(), 21);
        world.queue().resume().await.unwrap();
        world.clock.advance(Duration::from_mins(2));
        let world = {
            // A batch of more than the queue takes at a time does not fit: give it room.
            let options = queue_options().shards(1);
            world.with(options)
        };
        world.until_balances(&[("ada", 1), ("bob", 20)]).await;
        world
            .until("nothing waits", async || {
                world.bank("bob").waiting().await.unwrap() == 0
            })
            .await;
    });
}

#[test]
fn rows_in_flight_when_everything_is_deleted_are_no_later_rows() {
    run(async {
        let world = World::new();
        world.queue().pause().await.unwrap();
        // What an object sends stays in flight until it is on disk.
        world.disk.hold_syncs();
        let release = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            world.disk.release_syncs();
        };
        let bank = world.bank("ada");
        let (deposited, ()) = tokio::join!(bank.deposit_anew(10), release);
        // The rows before and after the deletion have the same ids, numbers and times.
        assert_eq!(deposited.unwrap(), 1);
        world
            .until("both are handed over", async || {
                world.counts().await.messages == 4 && bank.waiting().await.unwrap() == 0
            })
            .await;
    });
}

#[test]
fn committed_rows_reach_the_read_model_across_power_losses() {
    run(async {
        let seeds: u64 = abide_harness::setting("ABIDE_PROJECTION_SEEDS", 4);
        for seed in 0..seeds {
            println!("seed {seed}");
            let mut random = abide_harness::Random::new(seed);
            let mut world = World::new();
            let mut balances = [0; 4];
            let names = ["ada", "bob", "cyd", "dan"];
            for round in 0..6 {
                world.model.set(match random.below(3) {
                    0 => Mood::Down,
                    _ => Mood::Well,
                });
                for _ in 0..random.below(8) {
                    let at = random.below(4) as usize;
                    world.deposit(names[at], 1).await;
                    balances[at] += 1;
                }
                for _ in 0..random.below(30) {
                    world.clock.advance(Duration::from_millis(100));
                    tokio::task::yield_now().await;
                }
                world = match random.below(2) {
                    0 => world.killed(),
                    _ => world.crashed(seed * 100 + round),
                };
            }
            world.model.set(Mood::Well);
            let wanted: Vec<(&str, i64)> = names
                .into_iter()
                .zip(balances)
                .filter(|(_, balance)| *balance > 0)
                .collect();
            // The objects are not called: their alarms do it.
            world.until_balances(&wanted).await;
            let all: i64 = balances.iter().sum();
            world
                .until("each deposit", async || world.deposits().await == all)
                .await;
        }
    });
}
