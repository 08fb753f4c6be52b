//! Classes: the interface between the runtime and the code of objects.
//!
//! The runtime knows only [`Class`] (creates an instance) and [`Instance`] (takes an event, answers later). Both are
//! dyn-compatible and use the language-neutral [`Event`](crate::Event) and [`Reply`](crate::Reply).
//! [`Native`](crate::Native) adapts a Rust class to this interface.

use crate::{Ctx, Env, Instance, Result};

/// A kind of object, as the runtime sees it.
pub trait Class: Send + Sync + 'static {
    /// The class's name, for messages and metrics.
    fn name(&self) -> &str;

    /// Creates the instance of an object when it enters memory. Runs inside the object's first poll: its writes commit
    /// with that poll, and are rolled back if it fails.
    fn instantiate(&self, ctx: Ctx, env: Env) -> Result<Box<dyn Instance>>;
}
