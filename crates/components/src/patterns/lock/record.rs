//! What a lock keeps on disk.

use abide::{Result, Storage, TimelineId};
use serde::{Deserialize, Serialize};

use super::{Lease, Token};

pub(super) const KEY: &str = "lock";

/// A lock that has been held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The number of the last lease's token.
    pub(super) number: i64,
    /// The lease, if it has not ended.
    pub(super) lease: Option<Lease>,
    /// When the lock became free, in milliseconds since 1970.
    pub(super) free_since: i64,
}

impl Record {
    /// The lock as it is at a time.
    pub(super) fn load(storage: &Storage, now: i64) -> Result<Self> {
        let mut record: Self = storage.get(KEY)?.unwrap_or_default();
        if let Some(lease) = record.lease.take_if(|lease| lease.expires_at <= now) {
            record.free_since = lease.expires_at;
        }
        Ok(record)
    }

    pub(super) fn store(&self, storage: &Storage) -> Result<()> {
        storage.put(KEY, self)
    }

    /// Gives the lock, which is free, to a holder. Tokens are at least the time, so they also grow if the lock was
    /// forgotten.
    pub(super) fn grant(
        &mut self,
        holder: String,
        timeline: TimelineId,
        now: i64,
        expires_at: i64,
    ) -> Lease {
        self.number = self.number.saturating_add(1).max(now);
        let lease = Lease {
            holder,
            token: Token {
                timeline,
                number: self.number,
            },
            expires_at,
        };
        self.lease = Some(lease.clone());
        lease
    }

    /// The lease, if it has this token.
    pub(super) fn held_with(&mut self, token: Token) -> Option<&mut Lease> {
        self.lease.as_mut().filter(|lease| lease.token == token)
    }
}
