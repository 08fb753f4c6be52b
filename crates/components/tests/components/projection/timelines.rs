//! What restores and forks of objects mean to the read model.

use std::collections::{BTreeMap, BTreeSet};

use abide::{Bookmark, prelude::*};
use abide_harness::{Random, setting};

use crate::projection::support::{Bank, Mood, World, run};

/// The state of an account: its changes so far, and its balance.
async fn state(bank: &Stub<Bank>) -> (i64, i64) {
    bank.account().await.unwrap()
}

async fn bookmark(world: &World, name: &str) -> Bookmark {
    let bank = world.bank(name);
    world.node.bookmark(bank.untyped(), None).await.unwrap()
}

async fn restore_dormant(world: &World, name: &str, to: Bookmark) -> Bookmark {
    let bank = world.bank(name);
    let undo = world.node.restore_dormant(bank.untyped(), to).await;
    undo.unwrap()
}

async fn restore(world: &World, name: &str, to: Bookmark) -> Bookmark {
    let bank = world.bank(name);
    world.node.restore(bank.untyped(), to).await.unwrap()
}

/// Waits until the read model has a number of deposits.
async fn until_deposits(world: &World, count: i64) {
    world
        .until("the deposits", async || world.deposits().await == count)
        .await;
}

#[test]
fn a_restored_object_replaces_its_rows() {
    run(async {
        let world = World::new();
        world.deposit("ada", 1).await;
        world.deposit("bob", 5).await;
        let then = bookmark(&world, "ada").await;
        for amount in [10, 100, 1_000] {
            world.deposit("ada", amount).await;
        }
        world.until_balances(&[("ada", 1_111), ("bob", 5)]).await;
        until_deposits(&world, 5).await;
        // No call reaches it.
        let undo = restore(&world, "ada", then).await;
        world.until_balances(&[("ada", 1), ("bob", 5)]).await;
        until_deposits(&world, 2).await;
        world.deposit("ada", 2).await;
        world.until_balances(&[("ada", 3), ("bob", 5)]).await;
        until_deposits(&world, 3).await;
        let redo = restore(&world, "ada", undo).await;
        world.until_balances(&[("ada", 1_111), ("bob", 5)]).await;
        until_deposits(&world, 5).await;
        restore(&world, "ada", redo).await;
        world.until_balances(&[("ada", 3), ("bob", 5)]).await;
        until_deposits(&world, 3).await;
    });
}

#[test]
fn rows_of_the_undone_future_that_arrive_late_are_refused() {
    run(async {
        let world = World::new();
        world.deposit("ada", 1).await;
        let then = bookmark(&world, "ada").await;
        world.until_balances(&[("ada", 1)]).await;
        world.model.set(Mood::Down);
        world.deposit("ada", 10).await;
        let waits = async || world.bank("ada").waiting().await.unwrap() == 0;
        world.until("they wait in the queue", waits).await;
        restore(&world, "ada", then).await;
        world.until("its rows, too", waits).await;
        world.model.set(Mood::Well);
        let empty = async || world.counts().await.messages == 0;
        world.until("the queue is empty", empty).await;
        assert_eq!(world.balances().await, [("ada".to_owned(), 1)]);
        assert_eq!(world.deposits().await, 1);
    });
}

#[test]
fn a_fork_sends_its_rows_when_it_is_activated() {
    run(async {
        let world = World::new();
        world.deposit("ada", 1).await;
        let now = bookmark(&world, "ada").await;
        world.until_balances(&[("ada", 1)]).await;
        let ada = world.bank("ada");
        world.node.fork(ada.untyped(), now, "eve").await.unwrap();
        world.deposit("eve", 5).await;
        world.deposit("bob", 2).await;
        world.until_balances(&[("ada", 1), ("bob", 2)]).await;
        for _ in 0..50 {
            world.pass().await;
        }
        assert_eq!(world.balances().await.len(), 2, "it is dormant");
        assert!(world.bank("eve").waiting().await.unwrap() > 0);
        let eve = world.bank("eve");
        let node = &world.node;
        node.activate(eve.untyped(), Activation::Fresh)
            .await
            .unwrap();
        // Rows that it has inherited show its original.
        world
            .until_balances(&[("ada", 1), ("bob", 2), ("eve", 6)])
            .await;
        until_deposits(&world, 3).await;
    });
}

/// Random lives with deposits, some of them concurrent, restores, undos, forks, activations, kills, power cuts and a clock that
/// is set back. When everything is quiet the read model
/// equals the objects that are not dormant.
#[test]
fn the_read_model_equals_the_objects_after_random_lives() {
    run(async {
        for seed in 0..setting("ABIDE_PROJECTION_SEEDS", 4) {
            live(seed).await;
        }
    });
}

#[derive(Default)]
struct Life {
    /// Bookmarks to go back to, by object.
    bookmarks: BTreeMap<String, Vec<Bookmark>>,
    dormant: Vec<String>,
    /// Copies that were activated: the read model may have their rows.
    woken: BTreeSet<String>,
    /// The changes that a copy has inherited.
    inherited: BTreeMap<String, i64>,
}

#[allow(clippy::too_many_lines, reason = "the steps of a life, one by one")]
async fn live(seed: u64) {
    let mut random = Random::new(seed);
    let mut world = World::new();
    let mut life = Life::default();
    for step in 0..60 {
        let known: Vec<String> = life.bookmarks.keys().cloned().collect();
        let chosen = |random: &mut Random| known[random.below(known.len() as u32) as usize].clone();
        match random.below(15) {
            0..=4 => {
                let name = ["ada", "bob", "eve"][random.below(3) as usize].to_owned();
                world.deposit(&name, i64::from(random.below(100))).await;
                let now = bookmark(&world, &name).await;
                life.bookmarks.entry(name).or_default().push(now);
            }
            5 | 6 if !known.is_empty() => {
                let name = chosen(&mut random);
                let bookmarks = &life.bookmarks[&name];
                let to = bookmarks[random.below(bookmarks.len() as u32) as usize];
                let undo = match random.below(4) {
                    0 => restore_dormant(&world, &name, to).await,
                    _ => restore(&world, &name, to).await,
                };
                if let Some(bookmarks) = life.bookmarks.get_mut(&name) {
                    bookmarks.push(undo);
                }
                // A state from before the activation is dormant again.
                let is_dormant = world.bank(&name).dormant().await.unwrap();
                life.dormant.retain(|dormant| *dormant != name);
                if is_dormant {
                    life.dormant.push(name);
                }
            }
            7 if !known.is_empty() => {
                let name = chosen(&mut random);
                let at = *life.bookmarks[&name].last().unwrap();
                let copy = format!("copy {step}");
                let stub = world.bank(&name);
                world.node.fork(stub.untyped(), at, &copy).await.unwrap();
                let now = bookmark(&world, &copy).await;
                life.bookmarks.insert(copy.clone(), vec![now]);
                let (changes, _) = state(&world.bank(&copy)).await;
                life.inherited.insert(copy.clone(), changes);
                life.dormant.push(copy);
            }
            8 if !life.dormant.is_empty() => {
                let name = life.dormant.swap_remove(0);
                let how = match random.below(2) {
                    0 if name.starts_with("copy") => Activation::Fresh,
                    _ => Activation::Continue,
                };
                let stub = world.bank(&name);
                world.node.activate(stub.untyped(), how).await.unwrap();
                life.woken.insert(name);
            }
            9 => {
                // What was acknowledged survives.
                world = world.crashed(seed + step);
            }
            10 => world = world.killed(),
            11 => {
                let back = 6_000 + i64::from(random.below(14_000));
                world.clock.set_wall(-back);
            }
            12 if !known.is_empty() => {
                let one = chosen(&mut random);
                let (deposit, same) = (world.deposit(&one, 1), world.deposit(&one, 2));
                let read = world.bank(&one).waiting();
                let _ = tokio::join!(deposit, same, read);
            }
            _ => {
                for _ in 0..random.below(10) {
                    world.pass().await;
                }
            }
        }
    }
    // A dormant object does not correct what it has sent before.
    let (sent, dormant) = std::mem::take(&mut life.dormant)
        .into_iter()
        .partition(|name| life.woken.contains(name) || !name.starts_with("copy"));
    life.dormant = dormant;
    let sent: Vec<String> = sent;
    for name in sent {
        let stub = world.bank(&name);
        let activated = world.node.activate(stub.untyped(), Activation::Continue);
        activated.await.unwrap();
    }
    let mut wanted = Vec::new();
    for name in life.bookmarks.keys() {
        let (changes, balance) = state(&world.bank(name)).await;
        let own = changes - life.inherited.get(name).unwrap_or(&0);
        if !life.dormant.contains(name) && own > 0 {
            wanted.push((name.clone(), own, balance));
        }
    }
    let equal = async || {
        let balances = world.balances().await;
        let deposits: i64 = wanted.iter().map(|(_, changes, _)| changes).sum();
        let wanted = wanted
            .iter()
            .map(|(name, _, balance)| (name.clone(), *balance));
        balances == wanted.collect::<Vec<_>>() && world.deposits().await == deposits
    };
    world
        .until(&format!("seed {seed}: {wanted:?}"), equal)
        .await;
    // It stays so.
    for _ in 0..20 {
        world.pass().await;
    }
    assert!(equal().await, "seed {seed}");
}
