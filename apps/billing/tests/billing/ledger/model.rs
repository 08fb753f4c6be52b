//! A subscription as the guide describes it: what happens when, and what is reported to its [`Account`].
//!
//! Contract: it knows nothing of the engine. It is told the customer's requests, the outcomes of payments, and when
//! it was looked at, and says what there must be then.

mod calls;
mod invoice;
mod restored;

use std::collections::BTreeMap;

use crate::ledger::{
    account::{Account, Bill},
    calendar::{DAY, HOUR, start_of},
    life::{PRICES, Price},
};

pub(crate) use invoice::{Invoice, Status};

/// Service continues for this long after a failure.
const GRACE: i64 = 14 * DAY;

/// So long a first payment is waited for.
const PATIENCE: i64 = 23 * HOUR;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Trial,
    Waiting,
    Expired,
    Active,
    PastDue,
    Unpaid,
    Paused,
    Ended,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Trial => "trialing",
            Self::Waiting => "incomplete",
            Self::Expired => "incomplete_expired",
            Self::Active => "active",
            Self::PastDue => "past_due",
            Self::Unpaid => "unpaid",
            Self::Paused => "paused",
            Self::Ended => "canceled",
        }
    }

    pub(crate) fn is_served(self) -> bool {
        matches!(self, Self::Trial | Self::Active | Self::PastDue)
    }

    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Expired | Self::Ended)
    }

    /// There was, is, or will be service.
    fn goes_on(self) -> bool {
        !self.is_over() && self != Self::Waiting
    }
}

/// What came of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Paid,
    Failed,
    Asked,
    /// Taken back, because the customer pays with another card.
    Replaced,
}

#[derive(Clone, Copy, Debug)]
enum Timer {
    Expire,
    End,
    Trial,
    Grace,
    Retry,
    Period,
}

/// A subscription.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) phase: Phase,
    pub(crate) account: Account,
    pub(crate) invoices: BTreeMap<u32, Invoice>,
    /// Those that the subscription has forgotten with a restore, and has not billed again.
    pub(crate) forgotten: BTreeMap<u32, Invoice>,
    price: &'static Price,
    quantity: u32,
    trial_end: i64,
    /// Since when it waits for its first payment.
    waits_since: i64,
    anchor: Option<i64>,
    /// The number of the period that begins there.
    first: u32,
    current: Option<u32>,
    /// When that begins and ends.
    span: (i64, i64),
    next: u32,
    end: Option<i64>,
    was_served: bool,
    /// When something was written last: a chain's time does not go back with the clock.
    written: i64,
}

impl Model {
    pub(crate) fn new(now: i64, price: usize, quantity: u32, trial_days: u32) -> Self {
        let on_trial = trial_days > 0;
        Self {
            phase: if on_trial {
                Phase::Trial
            } else {
                Phase::Waiting
            },
            account: Account::default(),
            invoices: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            price: &PRICES[price],
            quantity,
            trial_end: now + i64::from(trial_days) * DAY,
            waits_since: now,
            anchor: (!on_trial).then_some(now),
            first: 0,
            current: None,
            span: (0, 0),
            next: 0,
            end: None,
            was_served: false,
            written: now,
        }
    }

    /// Something is written. When that was.
    fn writes(&mut self, now: i64) -> i64 {
        self.written = self.written.max(now);
        self.written
    }

    fn amount(&self) -> i64 {
        self.price.amount * i64::from(self.quantity)
    }

    fn start(&self, number: u32) -> Option<i64> {
        let anchor = self.anchor?.div_euclid(1_000) * 1_000;
        Some(start_of(anchor, self.price.length, number - self.first))
    }

    /// When the next period begins, if one does.
    pub(crate) fn boundary(&self) -> Option<i64> {
        let start = self.start(self.next)?;
        let is_last = self.end.is_some_and(|end| start >= end);
        (!self.phase.is_over() && !is_last).then_some(start)
    }

    /// When this many quarters of the present period have passed.
    pub(crate) fn quarter(&self, quarters: i64) -> Option<i64> {
        self.current?;
        let (start, end) = self.span;
        Some(start + (end - start) * quarters / 4)
    }

    fn owed(&self) -> impl Iterator<Item = &Invoice> {
        self.invoices.values().filter(|invoice| invoice.is_owed())
    }

    fn is_debtor(&self) -> bool {
        self.owed().next().is_some()
    }

    fn grace_end(&self) -> Option<i64> {
        self.owed()
            .filter_map(|invoice| invoice.since)
            .min()
            .map(|since| since + GRACE)
    }

    fn due(&self, timer: Timer) -> Option<i64> {
        if self.phase.is_over() {
            return None;
        }
        match timer {
            Timer::Expire => (self.phase == Phase::Waiting).then_some(self.waits_since + PATIENCE),
            Timer::End => self.end,
            Timer::Trial => (self.phase == Phase::Trial
                && self.end.is_none_or(|end| self.trial_end < end))
            .then_some(self.trial_end),
            Timer::Grace => self.grace_end().filter(|_| self.phase == Phase::PastDue),
            Timer::Retry if self.phase == Phase::PastDue => {
                self.owed().filter_map(Invoice::next_try).min()
            }
            Timer::Retry => None,
            Timer::Period => self.boundary(),
        }
    }

    /// Everything happens that was to happen by now, in the order of its times.
    pub(crate) fn looked_at(&mut self, now: i64) {
        let all = [
            Timer::Expire,
            Timer::End,
            Timer::Trial,
            Timer::Grace,
            Timer::Retry,
            Timer::Period,
        ];
        loop {
            let due = all
                .into_iter()
                .filter_map(|timer| Some((self.due(timer)?, timer)));
            let Some((at, timer)) = due.filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at)
            else {
                return;
            };
            self.happens(timer, at, now);
            self.remembers(now);
        }
    }

    fn happens(&mut self, timer: Timer, at: i64, now: i64) {
        let now = self.writes(now);
        match timer {
            Timer::Expire => self.is_never_served(Phase::Expired),
            Timer::End => self.ends(),
            Timer::Trial => {
                self.phase = Phase::Waiting;
                self.anchor = Some(self.trial_end);
                self.waits_since = now;
            }
            Timer::Grace => {
                self.phase = Phase::Unpaid;
                self.account.stop(self.current.unwrap(), at);
            }
            Timer::Retry => {
                for invoice in self
                    .invoices
                    .values_mut()
                    .filter(|invoice| invoice.is_owed())
                {
                    if invoice.next_try().is_some_and(|due| due <= at) {
                        invoice.attempts += 1;
                    }
                }
            }
            Timer::Period => self.enters(),
        }
    }

    fn enters(&mut self) {
        let number = self.next;
        let (start, end) = (self.start(number).unwrap(), self.start(number + 1).unwrap());
        self.account.enter(number, start, end);
        if self.phase.is_served() || self.phase == Phase::Waiting {
            let bill = self.account.invoice_period(number, self.amount());
            self.invoiced(number, &bill, true);
        } else {
            self.invoices_changes();
        }
        self.current = Some(number);
        self.span = (start, end);
        self.next = number + 1;
        if self.phase == Phase::Waiting && !self.is_debtor() {
            self.becomes_active();
        }
    }

    fn becomes_active(&mut self) {
        self.phase = Phase::Active;
        self.was_served = true;
    }

    fn invoiced(&mut self, number: u32, bill: &Bill, is_of_period: bool) {
        let status = if bill.due > 0 {
            Status::Open
        } else {
            Status::Paid
        };
        let invoice = Invoice {
            issued: bill.due,
            due: bill.due,
            status,
            attempts: u32::from(bill.due > 0),
            begun: 0,
            used: bill.used,
            is_of_period,
            failed: 0,
            since: None,
            failed_at: 0,
            before: 0,
            paid: 0,
            is_asked: false,
            surplus: 0,
        };
        self.invoices.insert(number, invoice);
    }

    /// What waits is invoiced where no period is.
    fn invoices_changes(&mut self) {
        if self.account.balance > 0 {
            let bill = self.account.invoice();
            self.invoiced(self.next, &bill, false);
        }
    }

    fn ends(&mut self) {
        if self.phase != Phase::Trial {
            self.invoices_changes();
        }
        self.phase = Phase::Ended;
    }

    /// It ends before it has begun: nothing is owed, and what is on its way is waited for.
    fn is_never_served(&mut self, phase: Phase) {
        self.phase = phase;
        let owed: Vec<u32> = self
            .invoices
            .iter()
            .filter(|(_, one)| one.is_owed())
            .map(|(number, _)| *number)
            .collect();
        for number in owed {
            let invoice = &self.invoices[&number];
            if !invoice.is_on_its_way() || invoice.begun < invoice.attempts {
                self.is_void(number, 0);
            }
        }
    }

    /// The bank hears of an attempt.
    pub(crate) fn begun(&mut self, number: u32, attempt: u32, amount: i64) -> Result<(), String> {
        let invoice = self.invoices.get_mut(&number);
        let Some(invoice) = invoice.filter(|invoice| invoice.is_owed()) else {
            return Err(format!(
                "the bank is asked for invoice {number}, which is not owed"
            ));
        };
        if (attempt, amount) != (invoice.attempts, invoice.due) || attempt != invoice.begun + 1 {
            return Err(format!(
                "the bank is asked for attempt {attempt} of invoice {number} over {amount}; wanted is {invoice:?}"
            ));
        }
        invoice.begun = attempt;
        Ok(())
    }

    /// Whether an attempt has failed and that invoice is not to be paid any more.
    pub(crate) fn is_too_late(&self, number: u32, attempt: u32) -> bool {
        let invoice = self.invoices.get(&number);
        let invoice = invoice.unwrap_or_else(|| &self.forgotten[&number]);
        !invoice.is_owed() && invoice.failed >= attempt
    }

    /// The bank tells what has come of an attempt to pay so much.
    pub(crate) fn hears(&mut self, number: u32, attempt: u32, amount: i64, fate: Fate, now: i64) {
        self.looked_at(now);
        let Some(invoice) = self.invoices.get_mut(&number) else {
            self.forgotten_hears(number, attempt, amount, fate);
            return;
        };
        if !invoice.is_owed() {
            return;
        }
        match fate {
            Fate::Paid => {
                invoice.status = Status::Paid;
                invoice.paid = amount;
                invoice.surplus = amount - invoice.due;
                self.writes(now);
                self.owes_less(now);
            }
            Fate::Failed | Fate::Replaced if attempt > invoice.failed => {
                let at = self.written.max(now);
                invoice.failed = attempt;
                invoice.is_asked = false;
                invoice.since.get_or_insert(at);
                invoice.failed_at = at;
                if fate == Fate::Replaced {
                    invoice.before += 1;
                    if self.phase != Phase::Expired {
                        invoice.attempts += 1;
                    }
                }
                self.writes(now);
                if self.phase == Phase::Active {
                    self.phase = Phase::PastDue;
                }
                if self.phase.is_over() && !self.was_served {
                    self.is_void(number, now);
                }
            }
            Fate::Asked => {
                invoice.is_asked = attempt > invoice.failed;
                self.writes(now);
            }
            Fate::Failed | Fate::Replaced => {}
        }
    }

    /// Service continues if nothing is owed any more.
    fn owes_less(&mut self, now: i64) {
        if self.is_debtor() {
            return;
        }
        match self.phase {
            Phase::Waiting => self.becomes_active(),
            Phase::PastDue => self.phase = Phase::Active,
            Phase::Unpaid => {
                self.phase = Phase::Active;
                self.serves(now);
            }
            _ => {}
        }
    }

    fn serves(&mut self, now: i64) {
        self.account
            .serve(self.current.unwrap(), now, self.amount());
    }

    fn is_void(&mut self, number: u32, now: i64) {
        let invoice = self.invoices.get_mut(&number).unwrap();
        invoice.status = Status::Void;
        self.account.void(invoice.used);
        if invoice.is_of_period {
            self.account.free(number);
        }
        self.owes_less(now);
    }

    /// The last attempt at an invoice, if that waits for its customer.
    pub(crate) fn waits_for_customer(&self, back: u32) -> Option<(u32, u32)> {
        let number = self.number(back)?;
        let invoice = &self.invoices[&number];
        let waits = invoice.is_owed() && invoice.is_asked && invoice.is_on_its_way();
        waits.then_some((number, invoice.attempts))
    }

    /// Whether what is said of service fits what is invoiced.
    pub(crate) fn is_billed_as_served(&self) -> bool {
        let is_counted = self
            .current
            .is_some_and(|current| self.account.is_served(current));
        match self.phase {
            Phase::Trial => !is_counted,
            // What was paid for is paid for.
            Phase::Ended | Phase::Expired | Phase::Waiting => true,
            phase => phase.is_served() == is_counted,
        }
    }
}
