//! A node that can be killed, and its clock.

pub(crate) use abide_harness::{Random, run, setting};

use std::{future::Future, rc::Rc, sync::Arc, time::Duration};

use abide::{
    Node, NodeBuilder, ObjectClass, Stub,
    clock::{Clock as _, TestClock},
    storage::SimDisk,
};

use crate::world::store;

type Make = Rc<dyn Fn(NodeBuilder) -> NodeBuilder>;

pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) clock: TestClock,
    pub(crate) node: Node,
    make: Make,
}

impl World {
    pub(crate) fn new(make: impl Fn(NodeBuilder) -> NodeBuilder + 'static) -> Self {
        Self::at(TestClock::new(), SimDisk::new(), Rc::new(make))
    }

    fn at(clock: TestClock, disk: SimDisk, make: Make) -> Self {
        let node = make(Node::builder(store(&disk, &clock)))
            .clock(Arc::new(clock.clone()))
            .workers(1)
            .start()
            .unwrap();
        Self {
            disk,
            clock,
            node,
            make,
        }
    }

    /// Another node, on what a kill of this one leaves.
    pub(crate) fn killed(self) -> Self {
        let disk = self.disk.after_kill();
        Self::at(self.clock.clone(), disk, Rc::clone(&self.make))
    }

    /// Another node, on what a power failure leaves of the disk.
    pub(crate) fn crashed(self, seed: u64) -> Self {
        let disk = self.disk.crash(seed);
        Self::at(self.clock.clone(), disk, Rc::clone(&self.make))
    }

    /// Killed, or without power: a seed decides.
    pub(crate) fn ended(self, random: &mut Random) -> Self {
        match random.below(2) {
            0 => self.killed(),
            _ => self.crashed(u64::from(random.below(u32::MAX))),
        }
    }

    pub(crate) fn object<T: ObjectClass>(&self, name: &str) -> Stub<T> {
        self.node.env().object::<T>().get_by_name(name)
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

    pub(crate) fn now(&self) -> i64 {
        self.clock.unix_millis().cast_signed()
    }

    /// Moves the clock, and lets everything happen that is due.
    pub(crate) async fn pass(&self, time: Duration) {
        self.node.settle().await.unwrap();
        self.clock.advance(time);
        self.node.settle().await.unwrap();
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
