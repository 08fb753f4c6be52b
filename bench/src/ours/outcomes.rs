//! Objects with chains of outcomes, of the size of a subscription's.
#![allow(clippy::unused_async)] // a remote method is async, whether it waits for something or not

use std::time::Instant;

use abide::outcomes::{
    Declaration, Entry, Machine, Outcomes, OutcomesError, OutcomesOptions, Until,
};
use abide::prelude::*;
use serde::{Deserialize, Serialize};

use crate::report::micros;

/// What a period's outcome says.
#[derive(Serialize, Deserialize)]
struct Paid<'a> {
    invoice: &'a str,
    amount: i64,
    currency: &'a str,
    attempt: u32,
}

/// What a customer has paid.
#[derive(Default, Serialize, Deserialize)]
struct Payments {
    amount: i64,
    last: Option<String>,
}

impl Machine for Payments {
    const SCHEMA: Declaration = Declaration {
        name: "payments",
        initial: "active",
        states: &["active", "past_due", "canceled"],
        terminal: &["canceled"],
        actions: &["collect", "cancel"],
        outcomes: &["paid", "failed", "canceled"],
        transitions: &[
            ("active", "collect", "paid", "active"),
            ("active", "collect", "failed", "past_due"),
            ("active", "cancel", "canceled", "canceled"),
            ("past_due", "collect", "paid", "active"),
            ("past_due", "cancel", "canceled", "canceled"),
        ],
    };

    fn apply(&mut self, entry: &Entry) -> Result<()> {
        if entry.outcome == "paid" {
            let paid: Paid<'_> = entry.data()?;
            self.amount += paid.amount;
            self.last = Some(paid.invoice.to_owned());
        }
        Ok(())
    }
}

#[durable_object]
pub(crate) struct Payer {
    outcomes: Outcomes<Payments>,
}

impl DurableObject for Payer {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self {
            outcomes: Outcomes::open(&ctx, OutcomesOptions::default())?,
        })
    }
}

#[rpc]
impl Payer {
    /// Writes this many outcomes in one transaction. Returns how many there are.
    pub(crate) async fn pay(&self, times: u32) -> Result<i64, OutcomesError> {
        let mut last = 0;
        for attempt in 0..times {
            let paid = Paid {
                invoice: "in_sub_4711_12",
                amount: 1_000,
                currency: "EUR",
                attempt,
            };
            last = self.outcomes.transition("collect", "paid", &paid)?.seq;
        }
        Ok(last)
    }

    /// What was paid. The first call replays the chain.
    pub(crate) async fn amount(&self) -> Result<i64, OutcomesError> {
        self.outcomes.read(|live| live.machine.amount)
    }

    /// Replays the chain from its beginning. Returns the microseconds that took.
    pub(crate) async fn replay(&self) -> Result<f64, OutcomesError> {
        let begun = Instant::now();
        self.outcomes.state_at(Until::End)?;
        Ok(micros(begun.elapsed()))
    }
}
