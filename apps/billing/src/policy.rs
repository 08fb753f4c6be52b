//! The terms of new subscriptions, from the command line.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use billing::{
    Currency, DUNNING_DAYS,
    states::{GRACE_DAYS, Policy, Terms},
};
use clap::Args;

/// Default days of advance notice of the end of a trial.
const TRIAL_NOTICE_DAYS: u32 = 3;

/// Default days of advance notice of a period's invoice.
const UPCOMING_NOTICE_DAYS: u32 = 7;

/// The terms of new subscriptions. Each subscription keeps the terms of its creation.
#[derive(Args)]
pub(crate) struct PolicyArgs {
    /// Days after the first failure on which a payment is retried
    #[arg(long, value_name = "DAYS", value_delimiter = ',', default_values_t = DUNNING_DAYS)]
    dunning_days: Vec<u32>,

    /// Days after the first failure until service ends
    #[arg(long, value_name = "DAYS", default_value_t = GRACE_DAYS)]
    grace_days: u32,

    /// The minimum charge, such as EUR=50 for 0.50 EUR; a smaller amount is moved to the next invoice; may be given
    /// several times [default: half of each currency's unit, or 50 if it has no minor unit]
    #[arg(long = "minimum-charge", value_name = "CURRENCY=AMOUNT", value_parser = minimum)]
    minimum_charges: Vec<(String, i64)>,

    /// Days of advance notice (`subscription.trial_will_end`) of the end of a trial; 0 for none
    #[arg(long, value_name = "DAYS", default_value_t = TRIAL_NOTICE_DAYS)]
    trial_notice_days: u32,

    /// Days of advance notice (`subscription.invoice_upcoming`) of a period; 0 for none
    #[arg(long, value_name = "DAYS", default_value_t = UPCOMING_NOTICE_DAYS)]
    upcoming_notice_days: u32,
}

fn minimum(text: &str) -> Result<(String, i64)> {
    let (code, amount) = text
        .split_once('=')
        .context("expected CURRENCY=AMOUNT, such as EUR=50")?;
    let currency: Currency = code.parse()?;
    let amount: u32 = amount.parse().context("an amount in the minor unit")?;
    Ok((currency.code().to_owned(), amount.into()))
}

impl PolicyArgs {
    /// The resulting policy.
    pub(crate) fn policy(&self) -> Result<Policy> {
        let terms = Terms {
            dunning_days: self.dunning_days.clone(),
            grace_days: self.grace_days,
            minimum_charge: 0,
            trial_notice_days: self.trial_notice_days,
            upcoming_notice_days: self.upcoming_notice_days,
        };
        terms.check()?;
        Ok(Policy {
            terms,
            minimum_charges: self
                .minimum_charges
                .iter()
                .cloned()
                .collect::<BTreeMap<_, _>>(),
            has_minimum: true,
        })
    }
}
