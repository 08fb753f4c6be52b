//! Where objects are that this node does not have.

use std::fmt;

use crate::ObjectId;

/// Tells which node has an object, for a node that shares its objects with others.
pub trait Whereabouts: Send + Sync {
    /// The URL at which clients reach the node that has this object, if it is known and another one. Must be fast.
    fn url_of(&self, id: &ObjectId) -> Option<String>;
}

impl fmt::Debug for dyn Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Whereabouts").finish_non_exhaustive()
    }
}
