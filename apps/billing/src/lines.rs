//! The lines of an invoice.
//!
//! Contract: the amount of an invoice is exactly the sum of its lines; it has no separate amount. An invoice never
//! pays money out: if the credits exceed the charges, nothing is due, and the rest is carried to the next invoice as a
//! separate line.

use serde::{Deserialize, Serialize};

use crate::{Currency, Money, MoneyError, Period};

/// The purpose of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// A period's price.
    Period,
    /// Credit for a price that was charged.
    ProrationCredit,
    /// Charge for the price that replaced it.
    ProrationCharge,
    /// Credit carried over from an earlier invoice.
    Carried,
    /// Credit of a credit note on an earlier invoice.
    Credit,
    /// An amount too small to be charged, moved to the next invoice.
    Deferred,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its purpose.
    pub kind: LineKind,
    /// The text for people.
    pub description: String,
    /// The price that it is based on, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// The part of time that it covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// The amount that it adds to the invoice; credits are negative.
    pub amount: Money,
}

/// Lines of one currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    currency: Currency,
    lines: Vec<Line>,
}

/// The totals of lines. `total` is `due` minus `left`, and one of the two is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// The sum of the lines.
    pub total: Money,
    /// The amount to pay: zero or more.
    pub due: Money,
    /// The credit that remains for the next invoice: zero or more.
    pub left: Money,
}

impl Lines {
    /// No lines yet.
    pub fn new(currency: Currency) -> Self {
        Self {
            currency,
            lines: Vec::new(),
        }
    }

    /// The currency of all of them.
    pub fn currency(&self) -> Currency {
        self.currency
    }

    /// All of them, in the order in which they were added.
    pub fn all(&self) -> &[Line] {
        &self.lines
    }

    /// Adds a line. Rejects a line in another currency or one that overflows the sum, without any change.
    pub fn add(&mut self, line: Line) -> Result<(), MoneyError> {
        self.total()?.plus(line.amount)?;
        self.lines.push(line);
        Ok(())
    }

    /// Rejects lines that are no longer accepted.
    pub fn check(&self) -> Result<(), MoneyError> {
        let all = self.lines.iter().map(|line| line.amount);
        all.chain([self.total()?]).try_for_each(Money::check)
    }

    /// The sum of the lines of a kind.
    pub fn of_kind(&self, kind: LineKind) -> Result<Money, MoneyError> {
        let of = self.lines.iter().filter(|line| line.kind == kind);
        Money::sum(self.currency, of.map(|line| line.amount))
    }

    /// The sum.
    pub fn total(&self) -> Result<Money, MoneyError> {
        Money::sum(self.currency, self.lines.iter().map(|line| line.amount))
    }

    /// The totals.
    pub fn totals(&self) -> Result<Totals, MoneyError> {
        let total = self.total()?;
        let zero = Money::zero(self.currency);
        let (due, left) = if total.is_negative() {
            (zero, total.negated())
        } else {
            (total, zero)
        };
        Ok(Totals { total, due, left })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(amount: Money) -> Line {
        Line {
            kind: LineKind::Period,
            description: "a line".into(),
            price: None,
            period: None,
            amount,
        }
    }

    fn money(amount: i64, currency: &str) -> Money {
        Money::new(amount, currency.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_line_that_does_not_fit_changes_nothing() {
        let mut lines = Lines::new("EUR".parse().unwrap());
        lines.add(line(money(Money::MAX_AMOUNT, "EUR"))).unwrap();
        assert_eq!(lines.check(), Ok(()));
        let before = lines.clone();
        assert!(lines.add(line(money(1, "USD"))).is_err());
        assert_eq!(lines, before);
        lines.add(line(money(1, "EUR"))).unwrap();
        assert_eq!(lines.check(), Err(MoneyError::TooMuch));
    }

    proptest! {
        #[test]
        fn lines_add_up_to_the_invoice_and_credits_are_carried_to_the_last_unit(
            invoices in prop::collection::vec(prop::collection::vec(-10_000_i64..10_000, 0..12), 1..12),
        ) {
            let euro = "EUR".parse().unwrap();
            let (mut carried, mut paid, mut wanted) = (Money::zero(euro), 0, 0);
            for amounts in invoices {
                let mut lines = Lines::new(euro);
                if !carried.is_zero() {
                    lines.add(line(carried.negated())).unwrap();
                }
                for amount in &amounts {
                    lines.add(line(money(*amount, "EUR"))).unwrap();
                }
                let totals = lines.totals().unwrap();
                let sum: i64 = lines.all().iter().map(|line| line.amount.amount()).sum();
                prop_assert_eq!(totals.total.amount(), sum);
                prop_assert_eq!(totals.due.minus(totals.left).unwrap(), totals.total);
                prop_assert!(totals.due.amount() >= 0 && totals.left.amount() >= 0);
                prop_assert!(totals.due.is_zero() || totals.left.is_zero());
                paid += totals.due.amount();
                wanted += amounts.iter().sum::<i64>();
                carried = totals.left;
            }
            prop_assert_eq!(paid - carried.amount(), wanted);
        }
    }
}
