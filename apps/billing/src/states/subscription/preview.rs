//! Previews of the next invoice.

use serde::{Deserialize, Serialize};

use super::{
    super::{Draft, Refusal},
    Changed, Plan, Subscription,
};
use crate::{Time, Totals};

/// A future invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upcoming {
    /// Its future id.
    pub invoice: String,
    /// When it will be created.
    pub at: Time,
    /// Its content.
    pub draft: Draft,
    /// Its totals.
    pub totals: Totals,
}

/// The preview of a plan change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// The data of the change.
    pub change: Changed,
    /// The invoice after it; none if no period follows.
    pub upcoming: Option<Upcoming>,
}

impl Subscription {
    /// The next invoice; none if no period is billed.
    pub fn upcoming(&self, id: &str, state: &str) -> Result<Option<Upcoming>, Refusal> {
        let mut then = self.clone();
        if state == "trialing" {
            let end = self
                .trial_end
                .filter(|end| self.cancel_at.is_none_or(|at| *end < at));
            let Some(end) = end else {
                return Ok(None);
            };
            then.count_from(end)?;
        } else if !Self::is_billed(state) {
            return Ok(None);
        }
        let Some(period) = then.next_period()? else {
            return Ok(None);
        };
        let draft = then.next_invoice(id)?;
        Ok(Some(Upcoming {
            invoice: draft.id(),
            at: period.start,
            totals: draft.totals()?,
            draft,
        }))
    }

    /// The effect of a plan change at a moment.
    pub fn preview(&self, id: &str, state: &str, plan: Plan, at: Time) -> Result<Preview, Refusal> {
        let change = self.change(state, plan, at)?;
        let mut after = self.clone();
        after.changed(change.clone());
        Ok(Preview {
            upcoming: after.upcoming(id, state)?,
            change,
        })
    }
}
