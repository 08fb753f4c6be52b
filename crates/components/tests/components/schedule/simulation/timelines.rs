//! Restores, undos, copies and activations of the object.
//!
//! What was undone does not go off, a dormant object does nothing, and each occurrence has one key.

use std::collections::{BTreeMap, BTreeSet};

use abide::{prelude::*, schedule::Firing};
use abide_harness::Random;

use super::Set;
use crate::schedule::support::{Effect, Sync, World};

type Sets = BTreeMap<String, Set>;

/// A state to which the object can be restored.
#[derive(Clone)]
struct Past {
    at: Bookmark,
    sets: Sets,
    dormant: bool,
}

#[derive(Default)]
pub(super) struct Timelines {
    pasts: Vec<Past>,
    dormant: bool,
    /// Copies, with what went off in them until they were made; the names of those that are activated end with `!`.
    copies: Vec<(String, Vec<Effect>)>,
    made: usize,
    /// All timers that were ever set, as the object said.
    names: BTreeSet<String>,
    /// Calls that were checked.
    seen: usize,
}

fn copy(world: &World, name: &str) -> Stub<Sync> {
    let objects = world.node.env().object::<Sync>();
    objects.get_by_name(name.trim_end_matches('!'))
}

async fn effects(object: &Stub<Sync>) -> Vec<Effect> {
    loop {
        if let Ok(effects) = object.effects().await {
            return effects;
        }
        tokio::task::yield_now().await;
    }
}

impl Timelines {
    fn present(&self, at: Bookmark, sets: &Sets) -> Past {
        Past {
            at,
            sets: sets.clone(),
            dormant: self.dormant,
        }
    }

    /// A bookmark is taken, the object goes back to one, or forward again, it is copied, or it or a copy is activated.
    pub(super) async fn travel(&mut self, world: &World, random: &mut Random, sets: &mut Sets) {
        let object = world.object();
        let (node, stub) = (&world.node, object.untyped());
        // It exists.
        effects(&object).await;
        match random.below(7) {
            0 | 1 => {
                let at = node.bookmark(stub, None).await.unwrap();
                self.pasts.push(self.present(at, sets));
            }
            2 | 3 if !self.pasts.is_empty() => {
                let chosen = random.below(u32::try_from(self.pasts.len()).unwrap());
                let to = self.pasts[chosen as usize].clone();
                let dormant = random.below(3) == 0;
                let undo = if dormant {
                    node.restore_dormant(stub, to.at).await
                } else {
                    node.restore(stub, to.at).await
                };
                self.pasts.push(self.present(undo.unwrap(), sets));
                self.dormant = dormant || to.dormant;
                // What went off until now was not undone yet.
                self.seen = world.calls.all().len();
                *sets = to.sets;
            }
            4 if self.copies.len() < 3 => {
                let at = node.bookmark(stub, None).await.unwrap();
                let name = format!("copy {}", self.made);
                self.made += 1;
                node.fork(stub, at, &name).await.unwrap();
                let had = effects(&copy(world, &name)).await;
                self.copies.push((name, had));
            }
            5 if !self.copies.is_empty() => {
                let chosen = random.below(u32::try_from(self.copies.len()).unwrap());
                let (name, _) = &mut self.copies[chosen as usize];
                if !name.ends_with('!') {
                    let stub = copy(world, name);
                    node.activate(stub.untyped(), Activation::Fresh)
                        .await
                        .unwrap();
                    name.push('!');
                }
            }
            _ => {
                let how = match random.below(3) {
                    0 => Activation::Fresh,
                    _ => Activation::Continue,
                };
                self.wake(world, how, sets).await;
            }
        }
    }

    /// Ends the dormancy of the object.
    pub(super) async fn wake(&mut self, world: &World, how: Activation, sets: &mut Sets) {
        if !std::mem::take(&mut self.dormant) {
            return;
        }
        let object = world.object();
        world.node.activate(object.untyped(), how).await.unwrap();
        if how == Activation::Fresh {
            for set in sets.values_mut() {
                *set = set.gone();
            }
        }
    }

    pub(super) async fn check(&mut self, world: &World, seed: u64, sets: &Sets) {
        self.names.extend(sets.keys().cloned());
        let calls = world.calls.all();
        for call in &calls[self.seen..] {
            let undone = self.names.contains(&call.timer) && !sets.contains_key(&call.timer);
            assert!(!undone, "seed {seed}: what was undone goes off: {call:?}");
            assert!(!self.dormant, "seed {seed}: it was dormant: {call:?}");
        }
        self.seen = calls.len();
        for (name, had) in &self.copies {
            let copy = copy(world, name);
            assert_eq!(effects(&copy).await, *had, "seed {seed}: {name}");
        }
        one_key_for_each(&calls, seed);
    }
}

/// No key has two occurrences.
fn one_key_for_each(calls: &[Firing], seed: u64) {
    let mut keys = BTreeMap::new();
    for call in calls {
        let occurrence = (&call.timer, call.due_at);
        let known = keys.entry(&call.key).or_insert(occurrence);
        assert_eq!(*known, occurrence, "seed {seed}: {}", call.key);
    }
}
