//! How presence works: timeouts, heartbeats, bounds.

use std::time::Duration;

use abide_macros::Setters;

use abide::{Error, ErrorKind, Result};

use crate::patterns::limits;

/// How an object's presence works.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct PresenceOptions {
    /// How long a visitor counts as present after the last heartbeat, at least; up to a quarter longer. Clients send
    /// at least three heartbeats in it. Default 60 s.
    pub timeout: Duration,
    /// The text that clients send as a heartbeat. Default `ping`.
    #[setters(into)]
    pub ping: String,
    /// What the gateway answers. Default `pong`.
    #[setters(into)]
    pub pong: String,
    /// Who may be here at a time. Default 10,000.
    pub max_present: u32,
}

impl Default for PresenceOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(1),
            ping: "ping".to_owned(),
            pong: "pong".to_owned(),
            max_present: 10_000,
        }
    }
}

impl PresenceOptions {
    pub(super) fn check(&self) -> Result<()> {
        let (shortest, longest) = (limits::MIN_PRESENCE_TIMEOUT, limits::MAX_PRESENCE_TIMEOUT);
        let wrong = if !(shortest..=longest).contains(&self.timeout) {
            format!(
                "a silent visitor counts as present for {} s to {} min",
                shortest.as_secs(),
                longest.as_secs() / 60
            )
        } else if !(1..=limits::MAX_PRESENT).contains(&self.max_present) {
            format!("1 to {} may be present", limits::MAX_PRESENT)
        } else {
            return Ok(());
        };
        Err(Error::with_kind(ErrorKind::Input, wrong))
    }
}
