//! What the output gate waits for and counts by. With the feature `interleavings` it is a model checker's instead of the
//! standard library's, as in the storage engine.

#[cfg(feature = "interleavings")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(feature = "interleavings"))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
