//! The limits that prevent abuse of the blog, in one place.

use std::time::Duration;

/// Limits for strangers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Comments of one client within [`WINDOW`].
    pub comments_per_client: u32,
    /// Comments with one e-mail address within [`WINDOW`], from any clients.
    pub comments_per_address: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            comments_per_client: 30,
            comments_per_address: 15,
        }
    }
}

/// The time window for comments and wrong tokens.
pub const WINDOW: Duration = Duration::from_hours(1);

/// Wrong tokens of one client within [`WINDOW`]; then none of its tokens is checked.
pub const WRONG_TOKENS: u32 = 20;

/// The time window for confirmation mails: one to an address, [`CONFIRMATIONS`] in total.
pub const CONFIRMATION_WINDOW: Duration = Duration::from_hours(24);

/// Confirmation mails within [`CONFIRMATION_WINDOW`], to all addresses together.
pub const CONFIRMATIONS: u32 = 500;

/// How long a subscription waits for its confirmation before it is removed.
pub const CONFIRM_WITHIN: Duration = Duration::from_hours(7 * 24);

/// The lifetime of the owner's browser session.
pub const SESSION: Duration = Duration::from_hours(12);

/// Maximum number of posts named in a confirmation mail and its page.
pub const NAMED_POSTS: i64 = 20;
