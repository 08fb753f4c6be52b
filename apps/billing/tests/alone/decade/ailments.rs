//! What ails the read model, and when.

use abide_harness::Random;

use crate::decade::{STEPS_A_DAY, model::Mood, world::World};

/// The ailments of some years, one after the other: gone, stopped, slow.
#[derive(Debug)]
pub(crate) struct Ailments {
    /// Between the beginnings of two.
    every: u64,
    many: u64,
    /// The step at which it is well again.
    well_at: u64,
    is_gone: bool,
    gone: u64,
    stopped: u64,
    slow: u64,
    /// Resources that told again what they are.
    told_again: usize,
}

impl Ailments {
    pub(crate) fn new(many: u64, steps: u64) -> Self {
        Self {
            every: (steps / many.max(1)).max(1),
            many,
            well_at: 0,
            is_gone: false,
            gone: 0,
            stopped: 0,
            slow: 0,
            told_again: 0,
        }
    }

    /// One may begin, or end.
    pub(crate) async fn go_on(&mut self, world: &World, step: u64, random: &mut Random) {
        if step == self.well_at {
            self.end(world).await;
        }
        let so_far = step / self.every;
        if step % self.every != self.every / 2 || so_far >= self.many {
            return;
        }
        // Days, but less than what the queue tries for.
        let steps = 1 + u64::from(random.below(u32::try_from(2 * STEPS_A_DAY).unwrap()));
        self.well_at = step + steps;
        match so_far % 3 {
            0 => {
                self.gone += 1;
                self.is_gone = true;
                world.model.vanishes();
            }
            1 => {
                self.stopped += 1;
                world.model.set(Mood::Stopped);
            }
            _ => {
                self.slow += 1;
                world.model.set(Mood::Slow);
            }
        }
    }

    /// It is well again, and has caught up.
    pub(crate) async fn end(&mut self, world: &World) {
        world.model.set(Mood::Well);
        world.catch_up().await;
        if std::mem::take(&mut self.is_gone) {
            self.told_again += world.rebuild().await.asked;
            world.catch_up().await;
        }
    }
}
