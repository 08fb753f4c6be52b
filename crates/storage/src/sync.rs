//! Locks without poisoning: a panic elsewhere must not make a store unusable. Every critical section of this crate
//! leaves its data consistent at each point where it could panic.
//!
//! All synchronization between threads of a store comes from here. With the feature `interleavings` it is that of a
//! model checker instead of the standard library: at each of these operations the checker decides which thread runs
//! next.
//!
//! # Order of locks
//!
//! A thread that holds a lock takes only locks of a later rank, and no two locks of one rank, except as noted. Nothing in the
//! code enforces this: a new lock gets its place here, and the models of interleavings report deadlocks.
//!
//! | rank | locks | notes |
//! |---|---|---|
//! | 1 | `Store`: `closed`, then `threads` | held while threads are joined, which take all other locks |
//! | 2 | `Engine::repairs` | held during a whole repair |
//! | 3 | `Engine::sweep`, `Hydration::pass`, then its claims, `Checkpointer::running`, `Compactor::state`, `SegmentPool::preparing` | each held during a whole step; a sweep takes `running` with `try_lock` |
//! | 4 | `Shared::clock_watch` | read while the watch runs, which may call `Store::clock_set_back` |
//! | 5 | `Catalog::owned` | held while the manifest is written |
//! | 6 | the progress of a checkpoint | one for each checkpoint |
//! | 7 | `Object::pages` | one object at a time; of others only with `try_pages` |
//! | 8 | `Log::provider` | held while a group is written and the listeners are notified; never taken with pages locked |
//! | 9 | `AlarmIndex::layout`, then a `Shard` of it | the layout is read while its listener is called, a shard is not locked then |
//! | 10 | `Announcer::notified`; `Announcer::listeners` | listeners must not call the store |
//! | 11 | all others | held for a few assignments, or to compress a block; nothing is taken while one is held, except that a shard of `OpenFiles` tries the pages of objects |
//!
//! Among the others are the log's `state`, the catalog's `published`, the table of live objects, the segments of the pool,
//! and every `Wakeup`. A listener of the log may drop the last handle of the store, and so take rank 1 with the provider
//! locked: no other thread can then have it.

#[cfg(feature = "interleavings")]
use shuttle::sync;
#[cfg(feature = "interleavings")]
pub(crate) use shuttle::{sync::atomic, thread};
#[cfg(not(feature = "interleavings"))]
use std::sync;
#[cfg(not(feature = "interleavings"))]
pub(crate) use std::{sync::atomic, thread};

pub(crate) use sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// Starts a thread of a scope.
#[cfg(not(feature = "interleavings"))]
pub(crate) fn spawn_scoped<'scope, R: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    run: impl FnOnce() -> R + Send + 'scope,
) -> std::io::Result<thread::ScopedJoinHandle<'scope, R>> {
    let builder = thread::Builder::new().name("abide-parallel".to_owned());
    builder.spawn_scoped(scope, run)
}

/// Starts a thread of a scope.
#[cfg(feature = "interleavings")]
#[allow(clippy::unnecessary_wraps, reason = "as above")]
pub(crate) fn spawn_scoped<'scope, R: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    run: impl FnOnce() -> R + Send + 'scope,
) -> std::io::Result<thread::ScopedJoinHandle<'scope, R>> {
    Ok(scope.spawn(run))
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// In a model no time passes: a wait that only its timeout would end is found as a deadlock.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        let (guard, _) = self
            .0
            .wait_timeout(guard, timeout)
            .unwrap_or_else(PoisonError::into_inner);
        guard
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
