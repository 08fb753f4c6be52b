//! What the service of each period costs, and what of it is still to be invoiced.
//!
//! A period costs what was served of it: each part at the price that was in force, by the second. It is invoiced when it begins, as if it
//! were served to its end; whatever changes that is put on the next invoice. So the account knows of no credits and charges,
//! but of parts that were served, and of the difference between what they cost and what was counted before.

use std::collections::BTreeMap;

use crate::ledger::calendar::SECOND;

/// A part of a period that is served at one price.
#[derive(Clone)]
struct Part {
    from: i64,
    /// None while it continues.
    until: Option<i64>,
    /// What the whole period costs at that price.
    price: i64,
}

/// A period.
#[derive(Clone)]
struct Period {
    start: i64,
    end: i64,
    parts: Vec<Part>,
    /// Its invoice was voided.
    is_free: bool,
    /// What of it has been counted.
    counted: i64,
    /// What credit notes and refunds have given back of it, and no end of service has counted yet.
    given: i64,
    /// The counted part of it. It is kept when service continues.
    withheld: i64,
    /// Changes of what it costs that wait for an invoice.
    waiting: i64,
    /// Changes of what it costs that are on invoices of others.
    invoiced: i64,
}

impl Period {
    fn seconds(&self, at: i64) -> i64 {
        let start = self.start.div_euclid(SECOND);
        at.div_euclid(SECOND)
            .clamp(start, self.end.div_euclid(SECOND))
            - start
    }

    /// What of a price has come together by a moment: in proportion, halves to the even neighbour.
    fn accrued(&self, price: i64, at: i64) -> i64 {
        let exact = i128::from(price) * i128::from(self.seconds(at));
        let whole = i128::from(self.seconds(self.end));
        let below = exact.div_euclid(whole);
        let twice = exact.rem_euclid(whole) * 2;
        let up = twice > whole || (twice == whole && below % 2 != 0);
        i64::try_from(below + i128::from(up)).unwrap()
    }

    fn cost(&self) -> i64 {
        if self.is_free {
            return 0;
        }
        let until = |part: &Part| part.until.unwrap_or(self.end);
        let cost = |part: &Part| {
            self.accrued(part.price, until(part)) - self.accrued(part.price, part.from)
        };
        self.parts.iter().map(cost).sum()
    }
}

/// What an invoice came to.
pub(crate) struct Bill {
    /// What is to be paid.
    pub(crate) due: i64,
    /// The credit that it has used.
    pub(crate) used: i64,
}

/// The account of a subscription.
#[derive(Clone, Default)]
pub(crate) struct Account {
    periods: BTreeMap<u32, Period>,
    /// What the next invoice has beside its period; below zero it is credit.
    pub(crate) balance: i64,
}

impl Account {
    /// A period begins.
    pub(crate) fn enter(&mut self, number: u32, start: i64, end: i64) {
        let period = Period {
            start,
            end,
            parts: Vec::new(),
            is_free: false,
            counted: 0,
            given: 0,
            withheld: 0,
            waiting: 0,
            invoiced: 0,
        };
        self.periods.insert(number, period);
    }

    /// Service continues at a price.
    pub(crate) fn serve(&mut self, number: u32, from: i64, price: i64) {
        let period = self.periods.get_mut(&number).unwrap();
        let until = None;
        period.parts.push(Part { from, until, price });
        self.count(number);
    }

    /// Service ends.
    pub(crate) fn stop(&mut self, number: u32, at: i64) {
        let period = self.periods.get_mut(&number).unwrap();
        if let Some(part) = period.parts.last_mut() {
            part.until.get_or_insert(at);
        }
        self.count(number);
    }

    /// Service continues at another price.
    pub(crate) fn change(&mut self, number: u32, at: i64, price: i64) {
        let period = self.periods.get_mut(&number).unwrap();
        if let Some(part) = period.parts.last_mut() {
            part.until.get_or_insert(at);
        }
        self.serve(number, at, price);
    }

    /// Whether service of a period continues.
    pub(crate) fn is_served(&self, number: u32) -> bool {
        let last = self.periods[&number].parts.last();
        last.is_some_and(|part| part.until.is_none())
    }

    /// What it costs less is credit, but for what was given back before; and what it costs more is charged, but for what was
    /// withheld of that.
    fn count(&mut self, number: u32) {
        let period = self.periods.get_mut(&number).unwrap();
        let change = period.cost() - period.counted;
        period.counted += change;
        let moved = if change < 0 {
            period.given.min(-change)
        } else {
            -period.withheld.min(change)
        };
        period.given -= moved;
        period.withheld += moved;
        period.waiting += change + moved;
        self.balance += change + moved;
    }

    /// Something is given back of what was paid, or is owed, for a period.
    pub(crate) fn gives_back(&mut self, number: u32, amount: i64) {
        if let Some(period) = self.periods.get_mut(&number) {
            period.given += amount;
        }
    }

    /// Credit for the next invoice.
    pub(crate) fn grant(&mut self, amount: i64) {
        self.balance -= amount;
    }

    /// What waits is invoiced.
    pub(crate) fn invoice(&mut self) -> Bill {
        for period in self.periods.values_mut() {
            period.invoiced += std::mem::take(&mut period.waiting);
        }
        let due = self.balance.max(0);
        self.balance -= due;
        Bill { due, used: 0 }
    }

    /// A period is invoiced that begins, with what waits.
    pub(crate) fn invoice_period(&mut self, number: u32, price: i64) -> Bill {
        let credit = (-self.balance).max(0);
        let start = self.periods[&number].start;
        self.serve(number, start, price);
        // The price itself is no change.
        self.periods.get_mut(&number).unwrap().waiting = 0;
        let bill = self.invoice();
        Bill {
            used: credit - (-self.balance).max(0),
            ..bill
        }
    }

    /// An invoice was issued before a restore, and came to so much less than is billed now.
    pub(crate) fn differs(&mut self, number: Option<u32>, less: i64) {
        if let Some(period) = number.and_then(|number| self.periods.get_mut(&number)) {
            period.waiting += less;
        }
        self.balance += less;
    }

    /// An invoice is not to be paid: what was due on it is forgiven. The credit that it has used comes back.
    pub(crate) fn void(&mut self, used: i64) {
        self.balance -= used;
    }

    /// The invoice of a period is not to be paid, so the period is free. What was given back of it is taken back.
    pub(crate) fn free(&mut self, number: u32) {
        let period = self.periods.get_mut(&number).unwrap();
        self.balance -= period.waiting + period.invoiced.min(0);
        (period.waiting, period.invoiced, period.counted) = (0, 0, 0);
        period.is_free = true;
    }
}
