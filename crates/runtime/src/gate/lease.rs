//! Until when a node may show what its objects have computed.

use std::fmt;

/// Tells whether a node may show what its objects have computed, for a node that shares its objects with others: when another may have
/// taken them over, what they would say can be wrong.
///
/// While it is not held, whatever leaves an object waits at the output gate, although what it shows is durable. Code that gets it back
/// calls [`Node::lease_regained`](crate::Node::lease_regained).
pub trait OutputLease: Send + Sync {
    /// Whether no other node can have taken over the objects that this node has not given away: those must have ended. Called whenever
    /// something leaves an object, after it was computed: it must be fast.
    fn is_held(&self) -> bool;
}

impl fmt::Debug for dyn OutputLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputLease")
            .field("is_held", &self.is_held())
            .finish()
    }
}
