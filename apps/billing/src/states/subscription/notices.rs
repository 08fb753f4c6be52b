//! The times of advance notices.

use super::{super::Refusal, Subscription};
use crate::Time;

impl Subscription {
    /// When to give notice of the end of the trial, if at all.
    pub fn trial_notice_at(&self, state: &str) -> Option<Time> {
        let days = self.terms.trial_notice_days;
        let end = self.trial_end?;
        let is_told = state != "trialing" || self.trial_told.is_some() || days == 0;
        let ends_with_it = self.cancel_at.is_some_and(|at| at <= end);
        (!is_told && !ends_with_it).then(|| before(end, days).max(self.created_at))
    }

    /// When to give notice of the next period's invoice, if at all.
    pub fn upcoming_notice_at(&self, state: &str) -> Result<Option<Time>, Refusal> {
        let days = self.terms.upcoming_notice_days;
        let is_told = self.upcoming_told == Some(self.next) || days == 0;
        if is_told || !matches!(state, "active" | "past_due") {
            return Ok(None);
        }
        let Some(next) = self.next_period()? else {
            return Ok(None);
        };
        // Not before the current period.
        let since = self.period.map_or(self.created_at, |period| period.start);
        Ok(Some(before(next.start, days).max(since).min(next.start)))
    }
}

fn before(at: Time, days: u32) -> Time {
    at.plus(-i64::from(days) * 24 * 60 * 60 * 1_000)
}
