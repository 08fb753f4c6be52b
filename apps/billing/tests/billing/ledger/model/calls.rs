//! The customer's requests: whether each is accepted, and what changes.

use super::{Model, Phase, Status};
use crate::ledger::life::{Call, PRICES, Price, Refund};

impl Model {
    /// A customer's request. False if it is refused.
    pub(crate) fn call(&mut self, call: Call, now: i64) -> bool {
        self.looked_at(now);
        let taken = match call {
            Call::Pause => {
                let is_taken = self.phase == Phase::Active;
                if is_taken {
                    self.phase = Phase::Paused;
                    self.account.stop(self.current.unwrap(), now);
                }
                is_taken
            }
            Call::Resume => self.phase == Phase::Paused && self.resumes(now),
            Call::Change(price, quantity) => self.changes(&PRICES[price], quantity, now),
            Call::CancelNow => self.cancels(),
            Call::CancelAtEnd => {
                let current = self.current.map(|_| self.span.1);
                let is_taken = self.phase.goes_on();
                if is_taken {
                    self.end = Some(current.unwrap_or(self.trial_end));
                }
                is_taken
            }
            Call::Keep => self.phase.goes_on() && self.end.take().is_some(),
            Call::Void(back) => return self.voids(self.number(back), now),
            Call::GiveUp(back) => return self.gives_up(self.number(back), now),
            Call::Pay(back) => return self.pays(self.number(back), now),
            Call::Reduce(back, part) => return self.reduces(self.number(back), part, now),
            Call::Refund(back, part, refund) => {
                return self.refunds(self.number(back), part, refund, now);
            }
        };
        if taken {
            self.writes(now);
            self.remembers(now);
        }
        taken
    }

    /// The invoice that is this many before the last.
    pub(crate) fn number(&self, back: u32) -> Option<u32> {
        let back = usize::try_from(back).unwrap();
        self.invoices.keys().rev().nth(back).copied()
    }

    fn resumes(&mut self, now: i64) -> bool {
        let mut owes = false;
        for invoice in self
            .invoices
            .values_mut()
            .filter(|invoice| invoice.is_owed())
        {
            if let Some(since) = &mut invoice.since {
                *since = now;
                invoice.before = invoice.failed;
                owes = true;
            }
        }
        self.phase = if owes { Phase::PastDue } else { Phase::Active };
        self.serves(now);
        true
    }

    fn changes(&mut self, price: &'static Price, quantity: Option<u32>, now: i64) -> bool {
        let is_other_length = price.length != self.price.length && self.anchor.is_some();
        if !self.phase.is_served() || is_other_length && self.end.is_some() {
            return false;
        }
        self.price = price;
        self.quantity = quantity.unwrap_or(self.quantity);
        if is_other_length {
            // The next period begins now.
            (self.anchor, self.first) = (Some(now), self.next);
            self.account.stop(self.current.unwrap(), now);
        } else if self.phase != Phase::Trial {
            let amount = self.amount();
            self.account.change(self.current.unwrap(), now, amount);
        }
        true
    }

    fn cancels(&mut self) -> bool {
        match self.phase {
            Phase::Expired | Phase::Ended => return false,
            Phase::Waiting => self.is_never_served(Phase::Ended),
            _ => self.ends(),
        }
        true
    }

    fn voids(&mut self, number: Option<u32>, now: i64) -> bool {
        let Some(number) = number else { return false };
        let invoice = &self.invoices[&number];
        if invoice.status == Status::Void {
            return true;
        }
        if !invoice.is_owed() || invoice.is_on_its_way() || self.phase == Phase::Waiting {
            return false;
        }
        self.writes(now);
        self.is_void(number, now);
        true
    }

    fn gives_up(&mut self, number: Option<u32>, now: i64) -> bool {
        let Some(invoice) = number.and_then(|number| self.invoices.get_mut(&number)) else {
            return false;
        };
        match invoice.status {
            Status::WrittenOff => true,
            Status::Open if !invoice.is_on_its_way() && self.phase != Phase::Expired => {
                invoice.status = Status::WrittenOff;
                self.writes(now);
                true
            }
            _ => false,
        }
    }

    fn pays(&mut self, number: Option<u32>, now: i64) -> bool {
        let Some(invoice) = number.and_then(|number| self.invoices.get_mut(&number)) else {
            return false;
        };
        if !invoice.is_owed() {
            return false;
        }
        if !invoice.is_on_its_way() {
            if self.phase == Phase::Expired {
                return false;
            }
            invoice.attempts += 1;
            self.writes(now);
        }
        true
    }

    /// What a credit note over this many hundredths of what is owed takes off; none if nothing is owed.
    pub(crate) fn reduction(&self, number: Option<u32>, part: i64) -> Option<i64> {
        let invoice = &self.invoices[&number?];
        invoice.is_owed().then(|| (invoice.due * part / 100).max(1))
    }

    fn reduces(&mut self, number: Option<u32>, part: i64, now: i64) -> bool {
        let Some(amount) = self.reduction(number, part) else {
            return false;
        };
        let number = number.unwrap();
        let invoice = self.invoices.get_mut(&number).unwrap();
        if amount > invoice.due || invoice.is_on_its_way() || self.phase == Phase::Expired {
            return false;
        }
        invoice.due -= amount;
        let (is_settled, is_of_period) = (invoice.due == 0, invoice.is_of_period);
        if is_settled {
            invoice.status = Status::Paid;
        }
        self.writes(now);
        self.gives_back(number, is_of_period, amount);
        if is_settled {
            self.owes_less(now);
        }
        true
    }

    /// A credit for a continuing period is not given twice.
    fn gives_back(&mut self, number: u32, is_of_period: bool, amount: i64) {
        if is_of_period && self.current == Some(number) {
            self.account.gives_back(number, amount);
        }
    }

    /// This many hundredths of what is left of a payment; none if nothing is.
    pub(crate) fn refundable(&self, number: Option<u32>, part: i64) -> Option<i64> {
        let invoice = &self.invoices[&number?];
        // An overpayment is returned automatically.
        let left = invoice.paid - invoice.surplus;
        (left > 0).then(|| (left * part / 100).max(1))
    }

    fn refunds(&mut self, number: Option<u32>, part: i64, refund: Refund, now: i64) -> bool {
        let Some(amount) = self.refundable(number, part) else {
            return false;
        };
        let number = number.unwrap();
        let goes_on = matches!(
            self.phase,
            Phase::Active | Phase::PastDue | Phase::Unpaid | Phase::Paused
        );
        if refund.to_balance && (!goes_on || self.end.is_some()) {
            return false;
        }
        let invoice = self.invoices.get_mut(&number).unwrap();
        invoice.paid -= amount;
        let is_of_period = invoice.is_of_period;
        if refund.to_balance {
            self.account.grant(amount);
        }
        if goes_on {
            self.writes(now);
            self.gives_back(number, is_of_period, amount);
        }
        true
    }
}
