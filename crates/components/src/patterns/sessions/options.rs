//! How sessions work: lifetimes, bounds.

use std::time::Duration;

use abide_macros::Setters;

use abide::{Error, ErrorKind, Result};

use crate::patterns::limits;

/// How an object's sessions work.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct SessionOptions {
    /// How long a session lasts after it was made or renewed. Default 24 h.
    pub lifetime: Duration,
    /// How long a session lasts at most, however often it is renewed. Default 30 days.
    pub max_lifetime: Duration,
    /// Most sessions of the object; further ones are refused. Default 1,000.
    pub max_sessions: u32,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_hours(24),
            max_lifetime: Duration::from_hours(30 * 24),
            max_sessions: 1_000,
        }
    }
}

impl SessionOptions {
    pub(super) fn check(&self) -> Result<()> {
        let longest = limits::MAX_SESSION_LIFETIME;
        let wrong = if self.lifetime.as_millis() == 0 || self.lifetime > self.max_lifetime {
            "a session lasts at least 1 ms, and at most its `max_lifetime`".to_owned()
        } else if self.max_lifetime > longest {
            format!(
                "a session lasts at most {} days",
                longest.as_secs() / 86_400
            )
        } else if !(1..=limits::MAX_SESSIONS).contains(&self.max_sessions) {
            format!("an object holds 1 to {} sessions", limits::MAX_SESSIONS)
        } else {
            return Ok(());
        };
        Err(Error::with_kind(ErrorKind::Input, wrong))
    }
}
