//! An in-memory cache of messages that wait for their first attempt and are about to be sent, with their payloads:
//! claiming one reads nothing.
//!
//! Contract: the rows are authoritative. A cached message does not change while it waits for its first attempt, under
//! its id: the statement that claims it checks that it waits, and a claimed message leaves the cache. So memory may
//! hold messages that were canceled, or whose transaction was rolled back.

use std::collections::HashMap;

use super::{claim::Claim, limits};

/// The cached messages, by id.
#[derive(Debug, Default)]
pub(super) struct Held {
    claims: HashMap<i64, Claim>,
    bytes: usize,
}

impl Held {
    /// Caches a message without an attempt, if there is room.
    pub(super) fn hold(&mut self, claim: Claim) {
        self.take(claim.id);
        let bytes = self.bytes.saturating_add(claim.size());
        if bytes <= limits::MAX_HELD_BYTES {
            self.bytes = bytes;
            self.claims.insert(claim.id, claim);
        }
    }

    /// True if a message is not cached.
    pub(super) fn lacks(&self, id: i64) -> bool {
        !self.claims.contains_key(&id)
    }

    /// Removes a message from the cache.
    pub(super) fn take(&mut self, id: i64) -> Option<Claim> {
        let claim = self.claims.remove(&id)?;
        self.bytes = self.bytes.saturating_sub(claim.size());
        Some(claim)
    }

    pub(super) fn forget_all(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flights::Standing;

    fn claim(id: i64, bytes: usize) -> Claim {
        Claim {
            id,
            kind: String::new(),
            destination: String::new(),
            origin: None,
            idempotency_key: String::new(),
            ordering_key: None,
            schedule: None,
            deadline: None,
            attempts: 0,
            first_attempt_at: None,
            unknown: false,
            operation: None,
            operation_since: None,
            poll_errors: 0,
            last_error: None,
            created_at: 0,
            changes: 0,
            since: 0,
            alone: false,
            failing_since: None,
            taken_at: 0,
            standing: Standing::default(),
            payload: Some("x".repeat(bytes)),
        }
    }

    #[test]
    fn what_is_held_has_few_bytes_and_goes_when_it_is_taken() {
        let mut held = Held::default();
        for id in 0..1_000 {
            held.hold(claim(id, 100));
        }
        let known = held.claims.len();
        assert!(
            (10..=limits::MAX_HELD_BYTES / 100).contains(&known),
            "{known}"
        );
        assert!(held.bytes <= limits::MAX_HELD_BYTES);
        held.hold(claim(0, limits::MAX_HELD_BYTES));
        assert!(held.take(0).is_none(), "it replaces what had its id");
        for id in 0..1_000 {
            held.take(id);
        }
        assert_eq!((held.claims.len(), held.bytes), (0, 0));
    }

    #[test]
    fn a_message_replaces_another_whose_id_it_has() {
        let mut held = Held::default();
        held.hold(claim(7, 100));
        held.hold(claim(7, 10));
        let claim = held.take(7).and_then(|claim| claim.payload);
        assert_eq!(claim.map(|payload| payload.len()), Some(10));
        assert!(held.take(7).is_none());
    }
}
