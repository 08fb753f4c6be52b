//! Work that the calling thread does together with others, which end with it.
//!
//! On small machines, and where there is little to do, the caller does it alone. A thread that cannot be started is done
//! without. A panic goes on in the caller when all have ended.

use crate::error::Result;
use crate::limits::{CORES_PER_PARALLEL_THREAD, MAX_PARALLEL_THREADS, PARALLEL_CORES};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{spawn_scoped, thread};
use std::panic::resume_unwind;

/// How many threads work together on a machine with so many cores.
pub(crate) fn threads(cores: usize) -> usize {
    if cores < PARALLEL_CORES {
        1
    } else {
        (cores / CORES_PER_PARALLEL_THREAD).min(MAX_PARALLEL_THREADS)
    }
}

/// Runs `work` with each number below `threads`, at the same time, and returns what it returned, in their order.
pub(crate) fn on_threads<R: Send>(threads: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    if threads <= 1 {
        return vec![work(0)];
    }
    let work = &work;
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|number| spawn_scoped(scope, move || work(number)))
            .collect();
        let mut results = vec![work(0)];
        for (number, other) in (1..).zip(others) {
            results.push(match other {
                Ok(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => work(number),
            });
        }
        results
    })
}

/// Does `work` for every item, on so many threads. After an error no further items are begun. Of several errors one that
/// is final for the node is returned.
pub(crate) fn for_each<T: Sync>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results = on_threads(threads.min(items.len()), |_| {
        while !failed.load(Ordering::Relaxed)
            && let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed))
        {
            work(item).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    });
    let errors = results.into_iter().filter_map(Result::err);
    // The last of those that are equal, so that which one it is does not matter to anybody.
    errors
        .max_by_key(crate::error::Error::is_final)
        .map_or(Ok(()), Err)
}

#[cfg(test)]
#[cfg(not(feature = "interleavings"))]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::panics::guard;
    use std::io;
    use std::sync::Barrier;

    #[test]
    fn small_machines_use_one_thread_and_large_ones_several_but_not_all() {
        let cores = [1, 2, 3, 4, 8, 16, 64];
        assert_eq!(cores.map(threads), [1, 1, 1, 2, 4, 8, 8]);
    }

    #[test]
    fn threads_work_at_the_same_time_and_their_results_are_in_order() {
        let all = Barrier::new(3);
        let results = on_threads(3, |number| {
            all.wait();
            number * 10
        });
        assert_eq!(results, [0, 10, 20]);
    }

    #[test]
    fn every_item_is_worked_on_once() {
        for count in [0, 1, 2, 100] {
            let items: Vec<_> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            for_each(4, &items, |item| {
                item.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .unwrap();
            assert!(items.iter().all(|item| item.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn an_error_ends_the_work_and_a_final_one_is_not_hidden_by_another() {
        let done = AtomicUsize::new(0);
        let items: Vec<_> = (0..1000).collect();
        let error = for_each(1, &items, |item| {
            done.fetch_add(1, Ordering::Relaxed);
            if *item == 2 {
                Err(Error::no_space())
            } else {
                Ok(())
            }
        });
        assert!(error.is_err() && done.load(Ordering::Relaxed) == 3);
        for last in [0, 1] {
            let both = Barrier::new(2);
            let error = for_each(2, &[0, 1], |item| {
                both.wait();
                if *item == last {
                    Err(Error::sync("syncing", &io::Error::from_raw_os_error(5)))
                } else {
                    Err(Error::no_space())
                }
            });
            assert!(error.unwrap_err().is_final());
        }
    }

    #[test]
    fn a_panic_of_one_thread_is_the_callers() {
        for number in 0..3 {
            let panicked = guard(|| on_threads(3, |n| assert!(n != number, "thread {n} panics")));
            assert_eq!(panicked.unwrap_err(), format!("thread {number} panics"));
        }
    }
}
