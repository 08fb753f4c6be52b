//! The content of the next invoice.

use super::{
    super::{Draft, Refusal},
    Subscription,
};
use crate::{Line, LineKind, Lines, Money};

impl Subscription {
    /// The invoice of the next period.
    pub fn next_invoice(&self, id: &str) -> Result<Draft, Refusal> {
        let plan = self.plan()?;
        let period = self.period_after()?;
        let line = Line {
            kind: LineKind::Period,
            description: format!("{} × {}", plan.quantity, plan.product),
            price: Some(plan.price.clone()),
            period: Some(period),
            amount: plan.amount()?,
        };
        self.draft(id, Some(line))
    }

    /// The invoice of pending lines, if the next period is not billed: it is skipped, or there is none. None if nothing
    /// is due.
    pub fn last_invoice(&self, id: &str) -> Result<Option<Draft>, Refusal> {
        if self.anchor.is_none() || self.pending.is_empty() {
            return Ok(None);
        }
        let draft = self.draft(id, None)?;
        let is_due = !draft.totals()?.due.is_zero();
        Ok(Some(draft).filter(|_| is_due))
    }

    fn draft(&self, id: &str, line: Option<Line>) -> Result<Draft, Refusal> {
        let period = self.period_after()?;
        let mut lines = Lines::new(self.plan()?.unit_amount.currency());
        if let Some(line) = line {
            lines.add(line)?;
        }
        for line in &self.pending {
            lines.add(line.clone())?;
        }
        if let Some(carried) = self.carried {
            lines.add(Line {
                kind: LineKind::Carried,
                description: if carried.is_negative() {
                    "Below the minimum charge of the last invoice".to_owned()
                } else {
                    "Credit of the last invoice".to_owned()
                },
                price: None,
                period: None,
                amount: carried.negated(),
            })?;
        }
        if let Some(deferred) = self.deferred(lines.totals()?.due) {
            lines.add(deferred)?;
        }
        Ok(Draft {
            subscription: id.to_owned(),
            customer: self.customer.clone(),
            period,
            lines,
        })
    }

    /// What is too little to be charged is on the next invoice.
    fn deferred(&self, due: Money) -> Option<Line> {
        let is_little = due.amount() > 0 && due.amount() < self.terms.minimum_charge;
        if !is_little {
            return None;
        }
        Some(Line {
            kind: LineKind::Deferred,
            description: "Below the minimum charge: on the next invoice".to_owned(),
            price: None,
            period: None,
            amount: due.negated(),
        })
    }
}
