//! The interface to the code of one object, which a [`Class`](crate::Class) creates.

use std::{future::Future, pin::Pin};

use crate::{Event, Reply, Result};

/// A future that stays on its thread.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// One object's code and memory.
pub trait Instance: 'static {
    /// Begins to handle an event. The future is polled on the object's thread, inside its gates.
    fn deliver(&self, event: Event) -> LocalFuture<Result<Reply>>;
}
