//! What pages show, wherever it comes from.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Currency, DUNNING_DAYS, Money, Time};

/// How business goes.
#[derive(Clone, Debug)]
pub(crate) struct Overview {
    /// Subscriptions by state.
    pub(crate) states: BTreeMap<String, u64>,
    /// The currency of what follows: that of most invoices.
    pub(crate) currency: Currency,
    /// What came in, the oldest month first.
    pub(crate) months: Vec<Month>,
    /// How failed payments ended, the newest month first.
    pub(crate) cohorts: Vec<Cohort>,
    /// Subscriptions that changed last.
    pub(crate) newest: Vec<Listed>,
}

/// A month's revenue.
#[derive(Clone, Debug)]
pub(crate) struct Month {
    /// As `2026-01`.
    pub(crate) name: String,
    /// `None` if it is more than an amount can be.
    pub(crate) paid: Option<Money>,
    pub(crate) invoices: u64,
}

/// A month's invoices whose first payment failed.
#[derive(Clone, Debug)]
pub(crate) struct Cohort {
    /// As `2026-01`.
    pub(crate) month: String,
    pub(crate) failed: u64,
    /// Paid by the retry of each day, and by a later one.
    pub(crate) won: [u64; DUNNING_DAYS.len() + 1],
    pub(crate) open: u64,
    pub(crate) lost: u64,
}

/// A resource as the read model has it.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) state: String,
    pub(crate) customer: String,
    pub(crate) amount: Option<Money>,
    pub(crate) attempts: i64,
    pub(crate) created_at: Time,
    pub(crate) updated_at: Time,
}

/// A step of a chain.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) action: String,
    pub(crate) outcome: String,
    /// The state that it led to.
    pub(crate) state: String,
    pub(crate) at: Time,
    pub(crate) data: Value,
}

/// One subscription.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    pub(crate) id: String,
    pub(crate) state: String,
    /// Names and values for people.
    pub(crate) facts: Vec<(String, String)>,
    /// Whether it gives its customer anything now.
    pub(crate) entitled: Option<bool>,
    /// Its chain, newest first.
    pub(crate) steps: Vec<Step>,
    /// Its invoices, newest first.
    pub(crate) invoices: Vec<Listed>,
}
