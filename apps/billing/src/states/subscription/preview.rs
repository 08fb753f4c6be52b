//! What the next invoice will be, if nothing else happens.

use serde::{Deserialize, Serialize};

use super::{
    super::{Draft, Refusal},
    Changed, Plan, Subscription,
};
use crate::{Time, Totals};

/// An invoice that there will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upcoming {
    /// The id that it will have.
    pub invoice: String,
    /// When.
    pub at: Time,
    /// What will be on it.
    pub draft: Draft,
    /// What that comes to.
    pub totals: Totals,
}

/// A change of plan that has not been made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// What the change would say.
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

    /// What a change of plan at a moment would come to.
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
