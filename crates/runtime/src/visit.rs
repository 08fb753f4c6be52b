//! A function of a test that runs inside an object.

use std::{any::Any, fmt};

use crate::Result;

/// A function that runs inside an object. See [`Node::run_in`](crate::Node::run_in).
pub struct Visit(pub(crate) Box<Visitor>);

/// Takes the object's instance.
pub(crate) type Visitor = dyn FnOnce(&dyn Any) -> Result<()> + Send;

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit").finish_non_exhaustive()
    }
}
