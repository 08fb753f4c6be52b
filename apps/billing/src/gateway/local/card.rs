//! What a card does.

use serde::{Deserialize, Serialize};

/// A card, by the name of a payment method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Card {
    /// `card_ok`: pays.
    Good,
    /// `card_declined`: never pays.
    Declined,
    /// `card_3ds`: pays when the customer has proved who they are.
    Secured,
    /// `card_slow`: pays, and is asked about twice before.
    Slow,
    /// `card_unrefundable`: pays, and takes nothing back.
    Unrefundable,
    /// `card_flaky_30`: does not pay so many times of a hundred.
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
