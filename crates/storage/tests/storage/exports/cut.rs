//! A cut has every object as it was at one position, whatever happens to the objects afterwards.

use std::collections::BTreeMap;

use abide_storage::{ArchiveOptions, Cut, ObjectKey, SplitMix64, Store};

use super::{bytes, delete, objects, value_in};
use crate::{
    common::flush,
    recovery_points::world::{MINUTE, World},
};

const CLASSES: [&str; 2] = ["First", "Second"];

/// What the objects have, by their keys.
type Model = BTreeMap<ObjectKey, String>;

fn random_key(store: &Store, random: &mut SplitMix64) -> ObjectKey {
    let class = CLASSES[random.below(2) as usize];
    ObjectKey {
        namespace: store.namespace(class).unwrap(),
        id: [(random.below(6) * 51) as u8; 32],
    }
}

/// Something that happens to an object or to the store.
fn act(world: &mut World, model: &mut Model, random: &mut SplitMix64) {
    let key = random_key(&world.store, random);
    match random.below(20) {
        0..=9 => {
            let text = "x".repeat(random.below(9_000) as usize);
            let text = format!("{} {text}", random.below(u64::MAX));
            let db = world.store.open_object(key).unwrap();
            db.kv_put("k", text.as_bytes()).unwrap();
            db.commit().unwrap();
            model.insert(key, text);
        }
        10..=13 => {
            delete(&world.store, key);
            model.remove(&key);
        }
        14 if model.contains_key(&key) => {
            let now = world.store.bookmark(key).unwrap();
            world.store.restore(key, &now).unwrap();
        }
        15 | 16 => world.store.checkpoint().unwrap(),
        17 => world.keep(),
        18 => world.reopen(),
        _ => world.pass(MINUTE),
    }
    flush(&world.store);
}

fn check(world: &World, cut: &Cut, expected: &Model, limit: usize, context: &str) {
    let found = objects(&world.store, cut, limit).unwrap();
    let keys: Vec<_> = found.iter().map(|object| object.key).collect();
    let wanted: Vec<_> = expected.keys().copied().collect();
    assert_eq!(keys, wanted, "{context}");
    for object in found {
        let at = object.bookmark.unwrap();
        let database = world.store.database_at(object.key, &at).unwrap();
        assert_eq!(
            value_in(&bytes(&database)),
            expected[&object.key],
            "{context}: {}",
            object.key
        );
    }
}

#[test]
fn s25_a_cut_has_every_object_as_it_was_whatever_follows() {
    for seed in 0..40 {
        let mut random = SplitMix64::new(seed);
        let large = [0, u64::MAX][random.below(2) as usize];
        let mut world = World::with(ArchiveOptions::default(), large);
        let mut model = Model::new();
        let mut cuts: Vec<(Cut, Model)> = Vec::new();
        for step in 0..60 {
            act(&mut world, &mut model, &mut random);
            if random.below(12) == 0 {
                let cut = world.store.cut().unwrap();
                // It survives the process.
                assert_eq!(cut.to_string().parse::<Cut>().unwrap(), cut);
                cuts.push((cut, model.clone()));
            }
            if let Some((cut, expected)) = cuts.last()
                && random.below(6) == 0
            {
                let limit = 1 + random.below(4) as usize;
                check(&world, cut, expected, limit, &format!("{seed}: {step}"));
            }
        }
        for (at, (cut, expected)) in cuts.iter().enumerate() {
            check(&world, cut, expected, 5, &format!("{seed}: cut {at}"));
        }
    }
}

#[test]
fn one_class_of_a_cut_is_listed_alone() {
    let world = World::new(ArchiveOptions::default());
    let keys: Vec<_> = CLASSES
        .iter()
        .flat_map(|class| {
            let namespace = world.store.namespace(class).unwrap();
            [3, 200].map(|id| ObjectKey {
                namespace,
                id: [id; 32],
            })
        })
        .collect();
    for key in &keys {
        let db = world.store.open_object(*key).unwrap();
        db.kv_put("k", b"v").unwrap();
        db.commit().unwrap();
    }
    flush(&world.store);
    let cut = world.store.cut().unwrap();
    for pair in keys.chunks(2) {
        let namespace = Some(pair[0].namespace);
        let page = world.store.cut_objects(&cut, namespace, None, 9).unwrap();
        let found: Vec<_> = page.objects.iter().map(|object| object.key).collect();
        assert_eq!((&*found, page.next), (pair, None));
    }
}

#[test]
fn databases_of_a_cut_need_no_checkpoint_of_later_commits() {
    let world = World::new(ArchiveOptions::default());
    for id in 1..5 {
        world.put(id, "then");
    }
    let cut = world.store.cut().unwrap();
    let taken = world.store.stats().checkpoints;
    for object in objects(&world.store, &cut, 9).unwrap() {
        world.put(1, "later");
        let at = object.bookmark.unwrap();
        let database = world.store.database_at(object.key, &at).unwrap();
        assert_eq!(value_in(&bytes(&database)), "then");
    }
    assert_eq!(world.store.stats().checkpoints, taken);
}
