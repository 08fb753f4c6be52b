//! Nodes with the classes of a pattern.

pub(crate) use abide_harness::{Random, run, setting};

use std::{future::Future, time::Duration};

use abide::{NodeBuilder, ObjectClass, storage::SimDisk};

use crate::world::{self, Setup};

/// Adds a test's classes to a node.
pub(crate) struct Classes(Box<dyn Fn(NodeBuilder) -> NodeBuilder>);

impl Setup for Classes {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        (self.0)(node)
    }
}

pub(crate) type World = world::World<Classes>;

impl World {
    pub(crate) fn new(make: impl Fn(NodeBuilder) -> NodeBuilder + 'static) -> Self {
        Self::of(Classes(Box::new(make)))
    }

    /// How many objects of a class are on disk.
    pub(crate) fn written<T: ObjectClass>(&self) -> usize {
        let objects = self.node.env().object::<T>();
        objects.untyped().written().unwrap().len()
    }

    /// How many objects have an alarm.
    pub(crate) fn alarms(&self) -> u64 {
        self.node.stats().alarms_pending
    }
}

/// Runs a test once for each seed.
pub(crate) fn each_seed<F: Future<Output = ()>>(test: impl Fn(u64, Random) -> F) {
    for seed in 1..=setting("ABIDE_PATTERNS_SEEDS", 12) {
        println!("seed {seed}");
        run(test(
            seed,
            Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        ));
    }
}

pub(crate) fn millis(millis: u32) -> Duration {
    Duration::from_millis(u64::from(millis))
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
