//! Seeds that are tried on all cores.

use std::{
    num::NonZero,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

/// Calls `test` with each seed, on as many threads as there are cores. After a panic of one seed no other begins, and the
/// caller panics as it did.
pub fn on_all_cores(seeds: Range<u64>, test: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return Ok(());
            }
            catch_unwind(AssertUnwindSafe(|| test(seed)))
                .inspect_err(|_| next.store(seeds.end, Ordering::Relaxed))?;
        }
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let ended: thread::Result<()> = thread.join().flatten();
            if let Err(panic) = ended {
                resume_unwind(panic);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn each_seed_is_tried_once() {
        let tried = Mutex::new(Vec::new());
        on_all_cores(3..50, |seed| tried.lock().unwrap().push(seed));
        let mut tried = tried.into_inner().unwrap();
        tried.sort_unstable();
        assert!(tried.into_iter().eq(3..50));
    }

    #[test]
    #[should_panic(expected = "seed 7 fails")]
    fn the_panic_of_a_seed_is_that_of_the_test() {
        on_all_cores(0..1_000_000, |seed| assert!(seed != 7, "seed {seed} fails"));
    }
}
