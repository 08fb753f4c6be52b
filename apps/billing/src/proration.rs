//! Proration: the cost of a part of a period.
//!
//! Contract: time is counted in seconds. Up to a moment of a period, its price has *accrued* in proportion, rounded to
//! the minor unit by [`Rounding::HalfEven`]; a part of the period costs what has accrued at its end minus what had at
//! its start. However a period is split, its parts add up to the price exactly.
//!
//! A change of price in the middle of a period is a credit for the rest of the old one and a charge for the rest of the
//! new one. With the price that was charged at the period's start, whatever changes follow add up to what each price
//! accrued while it was in force; a change to the same price is nothing.

use serde::{Deserialize, Serialize};

use crate::{Money, MoneyError, Period, Rounding, Time};

/// A change of price in the middle of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The credit for the old price: zero or below, unless the price itself is a credit.
    pub credit: Money,
    /// The charge for the new price.
    pub charge: Money,
}

impl Change {
    /// Both together.
    pub fn net(&self) -> Result<Money, MoneyError> {
        self.charge.plus(self.credit)
    }
}

/// The part of a period's price that has accrued at a moment: nothing before the period, all of it after.
pub fn accrued(price: Money, period: &Period, at: Time) -> Result<Money, MoneyError> {
    let (passed, whole) = passed(period, at);
    if whole == 0 {
        return Ok(price);
    }
    price.part(passed, whole, Rounding::HalfEven)
}

/// Seconds of a period before a moment, and in total.
fn passed(period: &Period, at: Time) -> (u64, u64) {
    let (start, end) = (period.start.seconds(), period.end.seconds());
    let at = at.seconds().clamp(start, end);
    (start.abs_diff(at), start.abs_diff(end))
}

/// The cost of the part of the period between two moments.
pub fn between(
    price: Money,
    period: &Period,
    from: Time,
    until: Time,
) -> Result<Money, MoneyError> {
    accrued(price, period, until)?.minus(accrued(price, period, from)?)
}

/// The remaining part of a period's price at a moment.
pub fn rest(price: Money, period: &Period, at: Time) -> Result<Money, MoneyError> {
    between(price, period, at, period.end)
}

/// A change from one price to another at a moment of a period whose price has been charged.
pub fn change(old: Money, new: Money, period: &Period, at: Time) -> Result<Change, MoneyError> {
    Ok(Change {
        credit: rest(old, period, at)?.negated(),
        charge: rest(new, period, at)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Anchor, Every};

    fn euro(amount: i64) -> Money {
        Money::new(amount, "EUR".parse().unwrap()).unwrap()
    }

    fn january() -> Period {
        let anchor = Anchor::new(Time(1_767_225_600_000), Every::MONTH).unwrap();
        anchor.period(0).unwrap()
    }

    fn moment(period: &Period, permille: i64) -> Time {
        Time(period.start.0 + (period.end.0 - period.start.0) / 1_000 * permille)
    }

    #[test]
    fn half_a_period_costs_half_and_an_upgrade_the_difference() {
        let period = january();
        let middle = moment(&period, 500);
        assert_eq!(accrued(euro(1_000), &period, middle), Ok(euro(500)));
        let change = change(euro(1_000), euro(3_000), &period, middle).unwrap();
        assert_eq!(change.credit, euro(-500));
        assert_eq!(change.charge, euro(1_500));
        assert_eq!(change.net(), Ok(euro(1_000)));
    }

    #[test]
    fn nothing_accrues_before_a_period_or_after_it() {
        let period = january();
        assert_eq!(accrued(euro(7), &period, Time(0)), Ok(euro(0)));
        assert_eq!(accrued(euro(7), &period, Time(i64::MAX)), Ok(euro(7)));
        assert_eq!(
            change(euro(7), euro(9), &period, Time(i64::MAX))
                .unwrap()
                .net(),
            Ok(euro(0))
        );
    }

    fn any_cuts() -> impl Strategy<Value = Vec<i64>> {
        prop::collection::vec(0_i64..=1_000, 0..20).prop_map(|mut cuts| {
            cuts.sort_unstable();
            cuts
        })
    }

    proptest! {
        #[test]
        fn however_a_period_is_cut_its_parts_add_up_to_the_price(
            price in -10_000_000_i64..10_000_000,
            cuts in any_cuts(),
        ) {
            let (period, price) = (january(), euro(price));
            let mut from = period.start;
            let mut total = euro(0);
            for until in cuts.iter().map(|cut| moment(&period, *cut)).chain([period.end]) {
                total = total.plus(between(price, &period, from, until).unwrap()).unwrap();
                from = until;
            }
            prop_assert_eq!(total, price);
        }

        #[test]
        fn charges_and_credits_of_any_changes_are_what_each_price_accrued(
            first in 0_i64..1_000_000,
            changes in any_cuts().prop_flat_map(|cuts| {
                let count = cuts.len();
                (Just(cuts), prop::collection::vec(0_i64..1_000_000, count))
            }),
        ) {
            let period = january();
            let mut price = euro(first);
            let mut since = period.start;
            let (mut billed, mut used) = (price, euro(0));
            for (cut, next) in changes.0.iter().zip(&changes.1) {
                let (at, next) = (moment(&period, *cut), euro(*next));
                billed = billed.plus(change(price, next, &period, at).unwrap().net().unwrap()).unwrap();
                used = used.plus(between(price, &period, since, at).unwrap()).unwrap();
                (price, since) = (next, at);
                // What has been billed is always what was used and what is left of the price in force.
                prop_assert_eq!(billed, used.plus(rest(price, &period, at).unwrap()).unwrap());
            }
            used = used.plus(between(price, &period, since, period.end).unwrap()).unwrap();
            prop_assert_eq!(billed, used);
        }

        #[test]
        fn changes_that_come_back_to_the_price_within_the_second_cost_nothing(
            price in 0_i64..1_000_000,
            other in 0_i64..1_000_000,
            cut in 0_i64..=1_000,
        ) {
            let (period, price, other) = (january(), euro(price), euro(other));
            let at = moment(&period, cut);
            let there = change(price, other, &period, at).unwrap().net().unwrap();
            let back = change(other, price, &period, at).unwrap().net().unwrap();
            prop_assert_eq!(there.plus(back).unwrap(), euro(0));
        }

        #[test]
        fn more_time_never_costs_less(price in 0_i64..10_000_000, one in 0_i64..=1_000, two in 0_i64..=1_000) {
            let (period, price) = (january(), euro(price));
            let at = |cut| accrued(price, &period, moment(&period, cut)).unwrap().amount();
            prop_assert!(at(one.min(two)) <= at(one.max(two)));
            prop_assert!(at(one) <= price.amount());
        }
    }
}
