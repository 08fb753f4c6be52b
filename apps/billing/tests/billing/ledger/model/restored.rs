//! A restore of the subscription: it is as it was then, and its invoices are as they are.

use super::{Fate, Invoice, Model, Phase, Status};

impl Model {
    /// The subscription is restored to what it was then.
    pub(crate) fn restored(&mut self, then: &Self, now: i64) {
        let undone = std::mem::replace(self, then.clone());
        self.forgotten = undone.forgotten;
        self.forgotten.extend(undone.invoices);
        self.writes(now);
        // What it does not owe has come to its end, and what it owes it asks.
        let known: Vec<u32> = self.invoices.keys().copied().collect();
        for number in known {
            if !self.invoices[&number].is_owed()
                && let Some(real) = self.forgotten.remove(&number)
            {
                self.invoices.insert(number, real);
            }
        }
        self.remembers(now);
        self.looked_at(now);
    }

    /// Every invoice that it has forgotten, and knows or bills again, is asked.
    pub(super) fn remembers(&mut self, now: i64) {
        let known: Vec<u32> = self.invoices.keys().copied().collect();
        for number in known {
            if let Some(real) = self.forgotten.remove(&number) {
                self.asks(number, &real, now);
            }
        }
    }

    fn asks(&mut self, number: u32, real: &Invoice, now: i64) {
        let at = self.writes(now);
        let billed = self.invoices[&number].clone();
        let less = billed.issued - real.issued;
        if real.status != Status::Void && less != 0 {
            let of_period = billed.is_of_period.then_some(number);
            self.account.differs(of_period, less);
        }
        let (reduced, known) = (real.issued - real.due, billed.issued - billed.due);
        if billed.is_of_period && self.current == Some(number) && reduced > known {
            self.account.gives_back(number, reduced - known);
        }
        let invoice = Invoice {
            used: billed.used,
            is_of_period: billed.is_of_period,
            failed: billed.failed,
            since: billed.since,
            failed_at: billed.failed_at,
            before: billed.before,
            status: Status::Open,
            ..real.clone()
        };
        self.invoices.insert(number, invoice);
        match real.status {
            Status::Paid => {
                self.invoices.get_mut(&number).unwrap().status = Status::Paid;
                self.owes_less(now);
            }
            Status::Void => {
                if self.phase == Phase::Waiting {
                    self.phase = Phase::Expired;
                }
                self.is_void(number, now);
            }
            Status::Open | Status::WrittenOff => self.fails_again(number, real, at),
        }
    }

    fn fails_again(&mut self, number: u32, real: &Invoice, at: i64) {
        let invoice = self.invoices.get_mut(&number).unwrap();
        invoice.status = real.status;
        if real.failed > invoice.failed {
            invoice.failed = real.failed;
            invoice.since.get_or_insert(at);
            invoice.failed_at = at;
            if self.phase == Phase::Active {
                self.phase = Phase::PastDue;
            }
            if self.phase.is_over() && !self.was_served {
                self.is_void(number, at);
            }
        }
    }

    /// A payment of an invoice that the subscription has forgotten comes to its end.
    pub(super) fn forgotten_hears(&mut self, number: u32, attempt: u32, amount: i64, fate: Fate) {
        let invoice = self.forgotten.get_mut(&number).unwrap();
        if !invoice.is_owed() {
            return;
        }
        match fate {
            Fate::Paid => {
                invoice.status = Status::Paid;
                invoice.paid = amount;
                invoice.surplus = amount - invoice.due;
            }
            Fate::Failed | Fate::Replaced => {
                invoice.failed = invoice.failed.max(attempt);
                invoice.is_asked = false;
            }
            Fate::Asked => invoice.is_asked = attempt > invoice.failed,
        }
    }
}
