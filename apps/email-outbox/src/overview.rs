//! Where the outbox stands.

use abide::outbox::{Counts, Destination, Outbox};
use abide::{Env, Result};
use serde::{Deserialize, Serialize};

use crate::{Lists, Progress};

/// Destinations that a page shows.
const DESTINATIONS: usize = 3;

/// Pauses up to this, in milliseconds, are too short to show.
const SHORT_PAUSE: i64 = 3_000;

/// The part of pages above the mails.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview {
    /// The number of mails by status.
    pub counts: Counts,
    /// Destinations that are paused at the moment.
    pub destinations: Vec<Destination>,
    /// The newest lists.
    pub lists: Vec<Progress>,
}

impl Overview {
    pub(crate) fn of(outbox: &Outbox, lists: &Lists, env: &Env) -> Result<Self> {
        let now = env.now().unix_millis();
        let mut destinations = outbox.destinations(DESTINATIONS)?;
        destinations.retain(|destination| {
            let left = destination.paused_until.unwrap_or(now) - now;
            left > SHORT_PAUSE || (left > 0 && destination.opened > 0)
        });
        Ok(Self {
            counts: outbox.counts()?,
            destinations,
            lists: lists.newest(outbox)?,
        })
    }
}
