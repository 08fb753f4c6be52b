//! On whose behalf objects are created, and the limit on that. [`crate::creation`] describes both.

use std::{net::IpAddr, time::Duration};

/// The client on whose behalf something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creator {
    /// The client's address.
    pub client: IpAddr,
    /// A hash of its token, if it has sent one.
    pub token: Option<u64>,
}

/// Limits how many objects each creator may create.
pub trait CreationLimit: Send + Sync + 'static {
    /// Counts an object that is about to be created; or returns why it must not be, and how long to wait.
    fn admit(&self, creator: &Creator) -> Result<(), (String, Duration)>;
}
