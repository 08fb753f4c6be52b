//! Every bound that keeps strangers from using the blog against others, in one place.

use std::time::Duration;

/// How much strangers may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Comments of one client in [`WINDOW`].
    pub comments_per_client: u32,
    /// Comments under one e-mail address in [`WINDOW`], whichever clients they come from.
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

/// The time in which comments and wrong tokens are counted.
pub const WINDOW: Duration = Duration::from_hours(1);

/// Wrong tokens of one client in [`WINDOW`]; then none of its tokens is looked at.
pub const WRONG_TOKENS: u32 = 20;

/// The time in which confirmation mails are counted: one to an address, [`CONFIRMATIONS`] in all.
pub const CONFIRMATION_WINDOW: Duration = Duration::from_hours(24);

/// Confirmation mails in [`CONFIRMATION_WINDOW`], to all addresses together.
pub const CONFIRMATIONS: u32 = 500;

/// How long a subscription waits for its confirmation; then it is forgotten.
pub const CONFIRM_WITHIN: Duration = Duration::from_hours(7 * 24);

/// How long the owner's browser may act as the owner after the token was typed.
pub const SESSION: Duration = Duration::from_hours(12);

/// Posts that a confirmation mail and its page name, at most.
pub const NAMED_POSTS: i64 = 20;
