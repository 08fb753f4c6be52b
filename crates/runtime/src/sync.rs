//! Synchronization primitives of the output gate. With the feature `interleavings` they are a model checker's instead
//! of the standard library's, as in the storage engine.

#[cfg(feature = "interleavings")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(feature = "interleavings"))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
