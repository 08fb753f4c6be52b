//! What an operator decides, beside the settings of the host.

use std::time::Duration;

use abide::outbox::handlers::Secret;

/// The settings of all desks.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A ticket that is not closed after this time is escalated.
    pub escalate_after: Duration,
    /// An address may write once in this time …
    pub write_every: Duration,
    /// … and this many times at once after a pause.
    pub write_burst: u32,
    /// Who hears of closed tickets.
    pub hook: Option<Hook>,
}

/// A receiver of signed webhooks.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Where the events are posted.
    pub url: String,
    /// The secret that the receiver verifies them with.
    pub secret: Secret,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            escalate_after: Duration::from_hours(4),
            write_every: Duration::from_secs(6),
            write_burst: 20,
            hook: None,
        }
    }
}
