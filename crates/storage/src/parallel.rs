//! Runs work on the calling thread together with scoped threads.
//!
//! On small machines, and for small tasks, the caller does the work alone. A thread that cannot be started is skipped.
//! A panic is propagated to the caller after all threads have ended.

use crate::error::Result;
use crate::limits::{CORES_PER_PARALLEL_THREAD, MAX_PARALLEL_THREADS, PARALLEL_CORES};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{spawn_scoped, thread};
use std::panic::resume_unwind;

/// The number of threads that work together on a machine with this many cores.
pub(crate) fn threads(cores: usize) -> usize {
    if cores < PARALLEL_CORES {
        1
    } else {
        (cores / CORES_PER_PARALLEL_THREAD).min(MAX_PARALLEL_THREADS)
    }
}

/// Runs `work` concurrently with each number below `threads`, and returns the results in that order.
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

/// Runs `work` for every item, on this many threads. After an error no further items are begun. Among several errors,
/// one that is final for the node is preferred.
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
    // The last of equal errors; which one it is does not matter.
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
