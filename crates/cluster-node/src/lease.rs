//! The lease of a member, for its output.

use tokio::sync::watch;

use crate::clock;

/// Tells whether a member's lease is held: until it ends, no other session can have taken over what this one serves, so what its objects say
/// is right. Not so the objects of shards that were given away: see [`Member::give`](crate::Member::give).
#[derive(Clone, Debug)]
pub struct Lease(watch::Receiver<u64>);

impl Lease {
    /// `until` is the end of the lease in milliseconds, by [`now`](crate::now).
    pub(crate) fn new(until: watch::Receiver<u64>) -> Self {
        Self(until)
    }

    /// Whether it is held. False once the member leaves or has ended. Fast: reads a clock.
    pub fn is_held(&self) -> bool {
        u128::from(*self.0.borrow()) > clock::now().as_millis()
    }

    /// Waits until it was renewed, or the member leaves or has ended. Returns false once the member is dropped.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}
