//! Rounding rules for quotients.

use serde::{Deserialize, Serialize};

/// A rule of rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// To the nearest; a half goes to the even neighbor. Halves do not accumulate in favor of either side.
    #[default]
    HalfEven,
    /// To the nearest; a half goes away from zero, as in manual calculations.
    HalfAwayFromZero,
    /// Towards zero: the remainder is dropped.
    TowardZero,
}

impl Rounding {
    /// The quotient, rounded. The divisor must be above zero.
    pub(super) fn divide(self, dividend: i128, divisor: i128) -> i128 {
        let (quotient, rest) = (dividend / divisor, dividend % divisor);
        let twice = rest.abs() * 2;
        let away = match self {
            Self::TowardZero => false,
            Self::HalfAwayFromZero => twice >= divisor,
            Self::HalfEven => twice > divisor || (twice == divisor && quotient % 2 != 0),
        };
        quotient + if away { dividend.signum() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_treats_halves_as_its_name_says() {
        let quarters = [-10, -7, -6, -5, -2, 0, 2, 5, 6, 7, 10];
        let all = |rule: Rounding| quarters.map(|quarter| rule.divide(quarter, 4));
        assert_eq!(
            all(Rounding::HalfEven),
            [-2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2]
        );
        assert_eq!(
            all(Rounding::HalfAwayFromZero),
            [-3, -2, -2, -1, -1, 0, 1, 1, 2, 2, 3]
        );
        assert_eq!(
            all(Rounding::TowardZero),
            [-2, -1, -1, -1, 0, 0, 0, 1, 1, 1, 2]
        );
    }
}
