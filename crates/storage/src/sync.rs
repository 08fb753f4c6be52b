//! Locks without poisoning: a panic elsewhere must not make a store unusable. Every critical section of this crate
//! leaves its data consistent at each point where it could panic.
//!
//! All synchronization between threads of a store comes from here. With the feature `interleavings` it is that of a
//! model checker instead of the standard library: at each of these operations the checker decides which thread runs
//! next.

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
