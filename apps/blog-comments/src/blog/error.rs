//! Errors of the blog.

use abide::outbox::OutboxError;
use abide::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Invalid;

/// Why the blog rejected a call. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub enum BlogError {
    /// There is no such post.
    #[error("There is no post {0}.")]
    NoPost(String),
    /// There is no such comment.
    #[error("There is no comment {0} on this post.")]
    NoComment(i64),
    /// There is another post at this address.
    #[error("The post {0} already exists.")]
    PostTaken(String),
    /// The input is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The mark belongs to a comment with different content.
    #[error("The mark belongs to another comment: a new comment needs a new mark.")]
    MarkReused,
    /// The link was not made by this blog.
    #[error("This link is not valid. Please copy the complete link from the mail.")]
    BadLink,
    /// The link was made too long ago.
    #[error("This link has expired. Comment again to get another.")]
    OldLink,
    /// The rate limit was exceeded.
    #[error("There were too many {what} {from}. Try again in {} minutes.", .seconds.div_ceil(60))]
    TooMany {
        /// What was limited.
        what: String,
        /// The client or address.
        from: String,
        /// When the limit resets.
        seconds: u64,
    },
    /// The outbox rejected it.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// The storage failed.
    #[error(transparent)]
    Object(#[from] Error),
}

impl BlogError {
    /// There were too many of something until a time.
    pub(super) fn too_many(what: &str, from: &str, until: i64, now: i64) -> Self {
        let seconds = u64::try_from(until.saturating_sub(now)).unwrap_or(0);
        Self::TooMany {
            what: what.to_owned(),
            from: from.to_owned(),
            seconds: seconds.div_ceil(1_000).max(1),
        }
    }
}
