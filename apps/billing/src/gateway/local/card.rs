//! The behavior of test cards.

use serde::{Deserialize, Serialize};

/// A card, by the name of a payment method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Card {
    /// `card_ok`: pays.
    Good,
    /// `card_declined`: never pays.
    Declined,
    /// `card_3ds`: pays after customer authentication.
    Secured,
    /// `card_slow`: pays after two status queries.
    Slow,
    /// `card_unrefundable`: pays, and accepts no refunds.
    Unrefundable,
    /// `card_flaky_30`: declines this percentage of payments.
    Flaky(u8),
}

impl Card {
    /// The card of a payment method, if there is one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "card_ok" => Self::Good,
            "card_declined" => Self::Declined,
            "card_3ds" => Self::Secured,
            "card_slow" => Self::Slow,
            "card_unrefundable" => Self::Unrefundable,
            _ => {
                let percent = name.strip_prefix("card_flaky_")?.parse().ok()?;
                (percent <= 100).then_some(Self::Flaky(percent))?
            }
        })
    }
}
