//! Money.
//!
//! Contract: an amount is a whole number of the currency's minor unit (cents, yen, fils), never a fraction. Overflow
//! and mixed currencies are errors. Divisions are rounded by a rule that is named where it is used;
//! [`Rounding::HalfEven`] is the default.

mod currency;
mod rounding;

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use currency::Currency;
pub use rounding::Rounding;

/// An amount of a currency, in its minor unit. Negative amounts are credits.
///
/// An amount read from JSON may exceed [`MAX_AMOUNT`](Self::MAX_AMOUNT), or be in a currency that is no longer in use:
/// it was accepted earlier. [`check`](Self::check) rejects that in new input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Money {
    amount: i64,
    currency: Currency,
}

/// Why there is no such amount.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum MoneyError {
    /// Two currencies in one sum.
    #[error("{0} and {1} cannot be added. Keep one currency to an invoice.")]
    Currencies(Currency, Currency),
    /// The amount is out of bounds.
    #[error("An amount must be between -{max} and {max} minor units.", max = Money::MAX_AMOUNT)]
    TooMuch,
    /// There is no such currency.
    #[error("“{0}” is not a currency of ISO 4217 in use. Use a three-letter code such as EUR.")]
    UnknownCurrency(String),
}

impl Money {
    /// The largest amount, of either sign: every JSON parser reads it exactly.
    pub const MAX_AMOUNT: i64 = (1 << 53) - 1;

    /// This many minor units.
    pub fn new(amount: i64, currency: Currency) -> Result<Self, MoneyError> {
        let money = Self { amount, currency };
        money.check()?;
        Ok(money)
    }

    /// Rejects an amount that is no longer accepted.
    pub fn check(self) -> Result<(), MoneyError> {
        if self.amount.unsigned_abs() > Self::MAX_AMOUNT.unsigned_abs() {
            return Err(MoneyError::TooMuch);
        }
        self.currency.check()
    }

    /// Zero.
    pub fn zero(currency: Currency) -> Self {
        Self {
            amount: 0,
            currency,
        }
    }

    /// Minor units.
    pub fn amount(self) -> i64 {
        self.amount
    }

    /// The currency.
    pub fn currency(self) -> Currency {
        self.currency
    }

    /// Returns whether the amount is zero.
    pub fn is_zero(self) -> bool {
        self.amount == 0
    }

    /// Returns whether the amount is a credit.
    pub fn is_negative(self) -> bool {
        self.amount < 0
    }

    /// The sum.
    pub fn plus(self, other: Self) -> Result<Self, MoneyError> {
        if self.currency != other.currency {
            return Err(MoneyError::Currencies(self.currency, other.currency));
        }
        self.with(self.amount.checked_add(other.amount))
    }

    /// The difference.
    pub fn minus(self, other: Self) -> Result<Self, MoneyError> {
        self.plus(other.negated())
    }

    /// The amount with the opposite sign.
    #[must_use]
    pub fn negated(self) -> Self {
        Self {
            amount: self.amount.saturating_neg(),
            ..self
        }
    }

    /// The amount multiplied by a quantity.
    pub fn times(self, quantity: u32) -> Result<Self, MoneyError> {
        self.with(self.amount.checked_mul(i64::from(quantity)))
    }

    /// The fraction `of / whole` of it, rounded to the minor unit. `whole` must not be zero.
    pub fn part(self, of: u64, whole: u64, rounding: Rounding) -> Result<Self, MoneyError> {
        let exact = i128::from(self.amount) * i128::from(of);
        let rounded = rounding.divide(exact, i128::from(whole));
        self.with(i64::try_from(rounded).ok())
    }

    /// Another amount of the same currency, if there is one.
    fn with(self, amount: Option<i64>) -> Result<Self, MoneyError> {
        let amount = amount.ok_or(MoneyError::TooMuch)?;
        Ok(Self { amount, ..self })
    }

    /// The sum of all amounts.
    pub fn sum(
        currency: Currency,
        parts: impl IntoIterator<Item = Self>,
    ) -> Result<Self, MoneyError> {
        parts.into_iter().try_fold(Self::zero(currency), Self::plus)
    }
}

impl fmt::Display for Money {
    /// As `12.50 EUR`, with as many digits as the currency has.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.currency.digits();
        let sign = if self.amount < 0 { "-" } else { "" };
        let unit = 10_u64.pow(digits.into());
        let amount = self.amount.unsigned_abs();
        write!(f, "{sign}{}", amount / unit)?;
        if digits > 0 {
            write!(f, ".{:0width$}", amount % unit, width = digits.into())?;
        }
        write!(f, " {}", self.currency)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn money(amount: i64, currency: &str) -> Money {
        Money::new(amount, currency.parse().unwrap()).unwrap()
    }

    #[test]
    fn an_amount_is_shown_with_the_digits_of_its_currency() {
        assert_eq!(money(1_250, "EUR").to_string(), "12.50 EUR");
        assert_eq!(money(-5, "USD").to_string(), "-0.05 USD");
        assert_eq!(money(1_250, "JPY").to_string(), "1250 JPY");
        assert_eq!(money(1_250, "KWD").to_string(), "1.250 KWD");
    }

    #[test]
    fn currencies_do_not_mix_and_amounts_do_not_overflow() {
        let (euro, dollar) = (money(1, "EUR"), money(1, "USD"));
        assert_eq!(
            euro.plus(dollar),
            Err(MoneyError::Currencies(euro.currency, dollar.currency))
        );
        let most = money(Money::MAX_AMOUNT, "EUR");
        for more in [most.plus(euro), most.times(2), most.negated().minus(euro)] {
            assert_eq!(more.unwrap().check(), Err(MoneyError::TooMuch));
        }
        assert_eq!(most.times(u32::MAX), Err(MoneyError::TooMuch));
        assert_eq!(
            Money::new(i64::MIN, euro.currency),
            Err(MoneyError::TooMuch)
        );
    }

    #[test]
    fn money_from_outside_can_be_checked_and_old_money_can_be_read() {
        let read = |text: &str| serde_json::from_str::<Money>(text);
        let euro = read(r#"{"amount":5,"currency":"eur"}"#).unwrap();
        assert_eq!((euro, euro.check()), (money(5, "EUR"), Ok(())));
        for wrong in [
            r#"{"amount":5.5,"currency":"EUR"}"#,
            r#"{"amount":5,"currency":"EURO"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for (old, shown) in [
            (r#"{"amount":500,"currency":"BGN"}"#, "5.00 BGN"),
            (r#"{"amount":500,"currency":"XXX"}"#, "500 XXX"),
            (
                r#"{"amount":9007199254740992,"currency":"EUR"}"#,
                "90071992547409.92 EUR",
            ),
        ] {
            let old = read(old).unwrap();
            assert_eq!(old.to_string(), shown);
            assert!(old.check().is_err(), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn a_sum_is_the_same_in_any_order(amounts in prop::collection::vec(-1_000_000_i64..1_000_000, 0..30)) {
            let euro = "EUR".parse().unwrap();
            let parts: Vec<_> = amounts.iter().map(|amount| Money::new(*amount, euro).unwrap()).collect();
            let forth = Money::sum(euro, parts.iter().copied()).unwrap();
            let back = Money::sum(euro, parts.iter().rev().copied()).unwrap();
            prop_assert_eq!(forth, back);
            prop_assert_eq!(forth.amount(), amounts.iter().sum::<i64>());
        }

        #[test]
        fn a_part_is_within_half_a_minor_unit_and_the_whole_is_exact(
            amount in -Money::MAX_AMOUNT..Money::MAX_AMOUNT,
            whole in 1_u64..u64::from(u32::MAX),
            of in 0_u64..u64::from(u32::MAX),
        ) {
            let of = of % (whole + 1);
            let money = money(amount, "EUR");
            let part = money.part(of, whole, Rounding::HalfEven).unwrap();
            let off = i128::from(part.amount()) * i128::from(whole) - i128::from(amount) * i128::from(of);
            prop_assert!(off.abs() * 2 <= i128::from(whole));
            prop_assert_eq!(money.part(whole, whole, Rounding::HalfEven).unwrap(), money);
        }

        #[test]
        fn json_gives_back_what_it_was_given(amount in -Money::MAX_AMOUNT..Money::MAX_AMOUNT) {
            let money = money(amount, "CHF");
            let text = serde_json::to_string(&money).unwrap();
            prop_assert_eq!(serde_json::from_str::<Money>(&text).unwrap(), money);
        }
    }
}
