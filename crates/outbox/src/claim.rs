//! A message in flight.

use serde::Deserialize;

use super::flights::Standing;

/// A message in flight: only its claimer changes its row.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Claim {
    pub(super) id: i64,
    pub(super) kind: String,
    pub(super) destination: String,
    pub(super) origin: Option<String>,
    pub(super) idempotency_key: String,
    pub(super) ordering_key: Option<String>,
    pub(super) schedule: Option<String>,
    pub(super) deadline: Option<i64>,
    pub(super) attempts: u32,
    pub(super) first_attempt_at: Option<i64>,
    pub(super) unknown: bool,
    pub(super) operation: Option<String>,
    pub(super) operation_since: Option<i64>,
    pub(super) poll_errors: u32,
    pub(super) last_error: Option<String>,
    pub(super) created_at: i64,
    pub(super) changes: i64,
    /// Since when it could be attempted: its age, which decides when it is due again after an attempt that does not
    /// count.
    pub(super) since: i64,
    /// Whether it is attempted alone.
    pub(super) alone: bool,
    /// Since when it would have been given up.
    pub(super) failing_since: Option<i64>,
    /// When its tokens were taken; 0 if an earlier process took them.
    #[serde(skip)]
    pub(super) taken_at: i64,
    /// The standing of its origin when it was claimed.
    #[serde(skip)]
    pub(super) standing: Standing,
    /// Its payload, if that is small.
    pub(super) payload: Option<String>,
}

impl Claim {
    /// The key of the limit of concurrent attempts: the destination, unless it shares an origin.
    pub(super) fn origin(&self) -> &str {
        self.origin.as_deref().unwrap_or(&self.destination)
    }

    /// Its approximate size in memory.
    pub(super) fn size(&self) -> usize {
        let texts = [
            Some(&self.kind),
            Some(&self.destination),
            self.origin.as_ref(),
            Some(&self.idempotency_key),
            self.ordering_key.as_ref(),
            self.schedule.as_ref(),
            self.payload.as_ref(),
        ];
        let bytes: usize = texts.into_iter().flatten().map(String::len).sum();
        size_of::<Self>() + bytes
    }
}
