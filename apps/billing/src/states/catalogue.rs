//! Products, and prices of them.

use serde::{Deserialize, Serialize};

use super::{Metadata, Refusal, Step, check_name};
use crate::{Anchor, Every, Money, Time};

/// The data of `create` and `update` of a product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewProduct {
    /// What it is called.
    pub name: String,
}

impl NewProduct {
    /// Rejects invalid input.
    pub fn check(&self) -> Result<(), Refusal> {
        check_name("A product's name", &self.name)
    }
}

/// A product.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// What it is called.
    pub name: String,
    /// The client's metadata.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Product {
    /// Rejects an invalid new outcome.
    pub fn validate(&self, step: &Step<'_>) -> Result<(), Refusal> {
        match step.action {
            "create" | "update" => step.data::<NewProduct>()?.check(),
            _ => Ok(()),
        }
    }

    /// Takes an outcome.
    pub fn apply(&mut self, step: &Step<'_>) -> Result<(), Refusal> {
        if matches!(step.action, "create" | "update") {
            self.name = step.data::<NewProduct>()?.name;
        }
        Ok(())
    }
}

/// The data of `create` of a price.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPrice {
    /// The product's id.
    pub product: String,
    /// What one unit costs for one period: zero or more.
    pub unit_amount: Money,
    /// How often it is billed.
    pub every: Every,
}

impl NewPrice {
    /// Rejects invalid input.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.unit_amount.is_negative() {
            return Err(Refusal::invalid("A price must be zero or more."));
        }
        self.unit_amount.check()?;
        Anchor::new(Time(0), self.every)?;
        Ok(())
    }
}

/// What a product costs, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// What it was created with.
    pub terms: Option<NewPrice>,
    /// The client's metadata.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Price {
    /// Rejects an invalid new outcome.
    pub fn validate(&self, step: &Step<'_>) -> Result<(), Refusal> {
        match step.action {
            "create" => step.data::<NewPrice>()?.check(),
            _ => Ok(()),
        }
    }

    /// Takes an outcome.
    pub fn apply(&mut self, step: &Step<'_>) -> Result<(), Refusal> {
        if step.action == "create" {
            self.terms = Some(step.data()?);
        }
        Ok(())
    }
}
