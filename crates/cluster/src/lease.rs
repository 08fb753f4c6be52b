//! Until when a session may answer.

use std::time::Duration;

use crate::limits::{LEASE, RENEW_EVERY};

/// When replies that no commit proves may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reads {
    /// While the lease is held. A clock that stands still while a whole virtual machine is suspended may let a reply leave that is up
    /// to [`LEASE`] old.
    #[default]
    Leased,
    /// After a statement that was sent when the reply had been computed. No clock is involved.
    Confirmed,
}

/// The lease of a session. Times are those of a clock that counts while a process or a machine sleeps (`CLOCK_BOOTTIME`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lease {
    /// When the last confirmed renewal was sent.
    renewed: Option<Duration>,
    /// When the last statement was sent that was committed and required that the session is not fenced.
    proven: Option<Duration>,
    /// When the last renewal was sent.
    sent: Option<Duration>,
    /// How many were sent.
    attempts: u64,
}

impl Lease {
    /// Whether another renewal is due.
    pub fn is_due(&self, now: Duration) -> bool {
        self.sent.is_none_or(|sent| now >= sent + RENEW_EVERY)
    }

    /// A renewal leaves at this time. Returns its number.
    pub fn sent(&mut self, now: Duration) -> u64 {
        self.sent = Some(now);
        self.attempts += 1;
        self.attempts
    }

    /// A renewal that was sent at this time is committed.
    pub fn renewed(&mut self, sent: Duration) {
        self.renewed = self.renewed.max(Some(sent));
        self.proven(sent);
    }

    /// A statement that was sent at this time, and requires that the session is not fenced, is committed.
    pub fn proven(&mut self, sent: Duration) {
        self.proven = self.proven.max(Some(sent));
    }

    /// No other session can have fenced this one before this time.
    pub fn until(&self) -> Option<Duration> {
        self.renewed.map(|sent| sent + LEASE)
    }

    /// Whether no other session can have fenced this one.
    pub fn is_held(&self, now: Duration) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// Whether a reply may leave. `computed` is read from the clock after the reply was computed, and `now` after that. A reply that may
    /// not leave yet is asked for again after the next renewal.
    pub fn may_release(&self, computed: Duration, reads: Reads, now: Duration) -> bool {
        let is_proven = self.proven.is_some_and(|sent| sent > computed);
        is_proven || (reads == Reads::Leased && self.is_held(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_lease_counts_from_the_sending_of_a_confirmed_renewal() {
        let mut lease = Lease::default();
        assert!(!lease.is_held(ms(0)) && lease.is_due(ms(0)));
        assert_eq!(lease.sent(ms(100)), 1);
        assert!(!lease.is_held(ms(101)) && !lease.is_due(ms(1_099)) && lease.is_due(ms(1_100)));
        lease.renewed(ms(100));
        assert!(lease.is_held(ms(5_099)) && !lease.is_held(ms(5_100)));
    }

    #[test]
    fn a_commit_does_not_extend_a_lease() {
        let mut lease = Lease::default();
        lease.renewed(ms(0));
        lease.proven(ms(4_000));
        assert!(!lease.is_held(ms(5_000)));
    }

    #[test]
    fn a_reply_leaves_after_a_statement_that_was_sent_later() {
        let mut lease = Lease::default();
        lease.renewed(ms(1_000));
        for reads in [Reads::Leased, Reads::Confirmed] {
            assert!(lease.may_release(ms(999), reads, ms(9_000)));
            assert!(!lease.may_release(ms(1_000), reads, ms(9_000)));
        }
        assert!(lease.may_release(ms(1_001), Reads::Leased, ms(5_999)));
        assert!(!lease.may_release(ms(1_001), Reads::Confirmed, ms(5_999)));
    }
}
