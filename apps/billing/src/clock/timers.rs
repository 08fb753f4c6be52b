//! The timers of a subscription, computed from its chain.

use crate::{
    Time,
    machines::COPY,
    states::{Refusal, Subscription},
};

/// A timer of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Its first invoice was not paid in time.
    Expire,
    /// It ends at the scheduled time.
    Cancel,
    /// Its trial ends.
    Trial,
    /// Days of grace end.
    Grace,
    /// Retry of a failed payment.
    Dunning,
    /// Advance notice that its trial will end.
    TrialNotice,
    /// Advance notice that the next period will be billed.
    Upcoming,
    /// The next period begins, and is billed.
    Period,
}

impl Timer {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Expire,
        Self::Cancel,
        Self::Trial,
        Self::Grace,
        Self::Dunning,
        Self::TrialNotice,
        Self::Upcoming,
        Self::Period,
    ];

    /// Its name in the schedule.
    pub fn name(self) -> &'static str {
        match self {
            Self::Expire => "expire",
            Self::Cancel => "cancel",
            Self::Trial => "trial",
            Self::Grace => "grace",
            Self::Dunning => "dunning",
            Self::TrialNotice => "trial notice",
            Self::Upcoming => "upcoming",
            Self::Period => "period",
        }
    }

    /// The timer of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|timer| timer.name() == name)
    }

    /// When it fires, if it is needed.
    pub fn at(self, state: &str, subscription: &Subscription) -> Result<Option<Time>, Refusal> {
        let ends = matches!(state, "" | "canceled" | "incomplete_expired" | COPY);
        let waits = !subscription.asks.is_empty();
        if ends || waits || subscription.plan.is_none() {
            return Ok(None);
        }
        Ok(match self {
            Self::Expire => (state == "incomplete").then(|| subscription.expires_at()),
            Self::Cancel => subscription.cancel_at,
            // A subscription that ends with its trial is never billed.
            Self::Trial => subscription.trial_end.filter(|end| {
                state == "trialing" && subscription.cancel_at.is_none_or(|at| *end < at)
            }),
            Self::Grace => subscription.grace_end().filter(|_| state == "past_due"),
            Self::Dunning if state == "past_due" => {
                let invoices = subscription.owed.keys();
                let next = invoices.filter_map(|invoice| subscription.next_attempt(invoice));
                next.map(|(at, _)| at).min()
            }
            Self::Dunning => None,
            Self::TrialNotice => subscription.trial_notice_at(state),
            Self::Upcoming => subscription.upcoming_notice_at(state)?,
            Self::Period => subscription.next_period()?.map(|period| period.start),
        })
    }
}
