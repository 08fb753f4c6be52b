//! What restores and forks mean to an outbox.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use abide::{Bookmark, prelude::*};
use abide_harness::{Random, setting};

use crate::outbox::support::{Sender, World, note, plain, run};

const MINUTE: Duration = Duration::from_mins(1);

fn sender(world: &World, name: &str) -> Stub<Sender> {
    world.node.env().object::<Sender>().get_by_name(name)
}

async fn bookmark(world: &World, name: &str) -> Bookmark {
    let stub = sender(world, name);
    world.node.bookmark(stub.untyped(), None).await.unwrap()
}

async fn fork(world: &World, from: &str, to: &str) {
    let at = bookmark(world, from).await;
    let stub = sender(world, from);
    world.node.fork(stub.untyped(), at, to).await.unwrap();
}

async fn activate(world: &World, name: &str, how: Activation) {
    let stub = sender(world, name);
    world.node.activate(stub.untyped(), how).await.unwrap();
}

#[test]
fn messages_unsent_at_a_restored_point_are_sent_again_under_their_keys() {
    run(async {
        let world = World::new(plain());
        world
            .enqueue(note("ada", "first").not_before(world.now() + 60_000))
            .await;
        let then = bookmark(&world, "ada").await;
        world.pass(MINUTE).await;
        world.enqueue(note("ada", "undone")).await;
        world.rest().await;
        let stub = world.sender();
        world.node.restore(stub.untyped(), then).await.unwrap();
        world.enqueue(note("ada", "anew")).await;
        world.pass(MINUTE).await;
        let sent = world.script.keyed_effects();
        let keys = |text: &str| -> BTreeSet<String> {
            let of = sent.iter().filter(|(sent, _)| sent == text);
            of.map(|(_, key)| key.clone()).collect()
        };
        assert_eq!(world.script.attempts("first"), 2);
        assert_eq!(keys("first").len(), 1, "{sent:?}");
        // The same number, and another key.
        assert!(keys("undone").is_disjoint(&keys("anew")), "{sent:?}");
    });
}

#[test]
fn a_fork_delivers_nothing_until_it_is_activated() {
    run(async {
        let world = World::new(plain());
        let later = world.now() + 60_000;
        world
            .enqueue(note("ada", "inherited").not_before(later))
            .await;
        for name in ["fresh", "continued"] {
            fork(&world, "ada", name).await;
            let own = note("ada", &format!("of the {name} one"));
            sender(&world, name).enqueue(own).await.unwrap();
        }
        world.pass(MINUTE).await;
        assert_eq!(world.script.effects(), ["inherited"], "the original's");
        activate(&world, "fresh", Activation::Fresh).await;
        activate(&world, "continued", Activation::Continue).await;
        let counts = sender(&world, "fresh").counts().await.unwrap();
        assert_eq!(counts.queued + counts.sending, 0, "{counts:?}");
        world.pass(MINUTE).await;
        let mut effects = world.script.effects();
        effects.sort_unstable();
        // What the copy had queued while it was dormant is dropped, too.
        assert_eq!(effects, ["inherited", "inherited", "of the continued one"]);
        let keys = world.script.keyed_effects().into_iter();
        let keys: BTreeSet<_> = keys.filter(|(text, _)| text == "inherited").collect();
        assert_eq!(keys.len(), 1, "they have one key");
        for name in ["fresh", "continued"] {
            let stub = sender(&world, name);
            assert!(stub.counts_are_right().await.unwrap());
            let own = note("ada", &format!("{name} later"));
            stub.enqueue(own).await.unwrap();
        }
        world.rest().await;
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(world.script.effects().len(), 5);
    });
}

/// Random lives with restores, undos, forks, activations, kills, power cuts, concurrent calls and a clock that is set back. A
/// message departs only from an object that was not dormant when it was sent, what was undone does not depart, and no key is
/// ever used for two bodies. `ABIDE_OUTBOX_LIVES` says how many lives.
#[test]
fn a_dormant_outbox_causes_no_departure_in_random_lives() {
    for seed in 0..setting("ABIDE_OUTBOX_LIVES", 3) {
        run(live(seed));
    }
}

#[allow(clippy::too_many_lines, reason = "the steps of a life, one by one")]
async fn live(seed: u64) {
    let mut random = Random::new(seed);
    let mut world = World::new(plain());
    let mut bookmarks: BTreeMap<String, Vec<Bookmark>> = BTreeMap::new();
    let mut dormant: BTreeSet<String> = BTreeSet::new();
    // Messages that can only have been queued in a dormant object, and must not be sent unless it continues.
    let mut silent: BTreeSet<String> = BTreeSet::new();
    let mut expected: BTreeSet<String> = BTreeSet::new();
    // An object and those that it was copied from.
    let mut family: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // What each object was given, at each of its bookmarks and now.
    let mut given: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut given_then: BTreeMap<Bookmark, BTreeSet<String>> = BTreeMap::new();
    // What was undone, unless a copy continues with it, and how many effects there were until then.
    let mut undone: BTreeMap<String, (BTreeSet<String>, usize)> = BTreeMap::new();
    let mut continued: BTreeSet<String> = BTreeSet::new();
    let is_of = |text: &str, family: &[String]| {
        family
            .iter()
            .any(|name| text.ends_with(&format!("of {name}")))
    };
    for step in 0..50_u64 {
        let known: Vec<String> = bookmarks.keys().cloned().collect();
        let chosen = |random: &mut Random| known[random.below(known.len() as u32) as usize].clone();
        match random.below(13) {
            0..=3 => {
                let name = if known.is_empty() || random.below(3) == 0 {
                    "ada".to_owned()
                } else {
                    chosen(&mut random)
                };
                let text = format!("{step} of {name}");
                let stub = sender(&world, &name);
                let enqueued = stub.enqueue(note("all", &text));
                // Others read it meanwhile.
                let read = futures_util::future::join(stub.counts(), stub.is_dormant());
                let (enqueued, _) = futures_util::future::join(enqueued, read).await;
                enqueued.unwrap();
                given.entry(name.clone()).or_default().insert(text.clone());
                if dormant.contains(&name) {
                    silent.insert(text);
                } else {
                    expected.insert(text);
                }
                let now = bookmark(&world, &name).await;
                family
                    .entry(name.clone())
                    .or_insert_with(|| vec![name.clone()]);
                given_then.insert(now, given[&name].clone());
                bookmarks.entry(name).or_default().push(now);
            }
            4 if !known.is_empty() => {
                let name = chosen(&mut random);
                let to = bookmarks[&name][random.below(bookmarks[&name].len() as u32) as usize];
                let stub = sender(&world, &name);
                // What is unsent in the undone future need not be sent.
                expected.retain(|text| !text.ends_with(&format!("of {name}")));
                let undo = match random.below(4) {
                    0 => world.node.restore_dormant(stub.untyped(), to).await,
                    _ => world.node.restore(stub.untyped(), to).await,
                };
                let undo = undo.unwrap();
                let present = given.entry(name.clone()).or_default();
                let then = given_then[&to].clone();
                let gone = present.difference(&then).cloned().collect();
                undone.insert(name.clone(), (gone, world.script.effects().len()));
                given_then.insert(undo, std::mem::replace(present, then));
                bookmarks.get_mut(&name).unwrap().push(undo);
                let is_dormant = stub.is_dormant().await.unwrap();
                if is_dormant {
                    dormant.insert(name);
                } else {
                    dormant.remove(&name);
                    silent.retain(|text| !is_of(text, &family[&name]));
                }
            }
            5 if !known.is_empty() => {
                let name = chosen(&mut random);
                let copy = format!("copy {step}");
                fork(&world, &name, &copy).await;
                let now = bookmark(&world, &copy).await;
                let has = given.get(&name).cloned().unwrap_or_default();
                given_then.insert(now, has.clone());
                given.insert(copy.clone(), has);
                bookmarks.insert(copy.clone(), vec![now]);
                let mut names = family[&name].clone();
                names.push(copy.clone());
                family.insert(copy.clone(), names);
                dormant.insert(copy);
            }
            6 if !dormant.is_empty() => {
                let name = dormant.pop_first().unwrap();
                if random.below(2) == 0 {
                    activate(&world, &name, Activation::Fresh).await;
                } else {
                    activate(&world, &name, Activation::Continue).await;
                    silent.retain(|text| !is_of(text, &family[&name]));
                    continued.extend(family[&name].iter().filter(|of| **of != name).cloned());
                }
            }
            10 => world = world.killed(),
            11 => {
                let back = 6_000 + i64::from(random.below(14_000));
                world.clock.set_wall(-back);
            }
            7 => world = world.crashed(seed + step),
            _ => {
                world
                    .pass(Duration::from_secs(u64::from(random.below(3))))
                    .await;
            }
        }
        let sent: BTreeSet<String> = world.script.effects().into_iter().collect();
        let departed: Vec<_> = sent.intersection(&silent).collect();
        assert!(
            departed.is_empty(),
            "seed {seed}, step {step}: {departed:?}"
        );
        let effects = world.script.effects();
        for (name, (gone, until)) in &undone {
            let departed = effects[*until..].iter().find(|text| gone.contains(*text));
            assert!(
                departed.is_none() || continued.contains(name),
                "seed {seed}, step {step}: {departed:?} was undone"
            );
        }
    }
    world.pass(MINUTE).await;
    let mut bodies: BTreeMap<String, String> = BTreeMap::new();
    for (text, key) in world.script.keyed_effects() {
        let known = bodies.entry(key).or_insert_with(|| text.clone());
        assert_eq!(*known, text, "seed {seed}: two bodies under one key");
    }
    let sent: BTreeSet<String> = world.script.effects().into_iter().collect();
    let missing: Vec<_> = expected.difference(&sent).collect();
    assert!(missing.is_empty(), "seed {seed}: {missing:?} of {sent:?}");
}
