//! A resource's row in the read model.

use abide::{Ctx, Error, Result};
use abide::{
    outcomes::Reached,
    projection::{Feed, Table, Type},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Live;
use crate::{Money, Time};

/// The name of the table.
pub(crate) const TABLE: &str = "resources";

/// A resource's row in the read model: its newest state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// Its state.
    pub state: String,
    /// The number of its outcomes: a row replaces one with a smaller number.
    pub seq: i64,
    /// The customer's id.
    pub customer: Option<String>,
    /// The subscription's id.
    pub subscription: Option<String>,
    /// Its amount in the minor unit.
    pub amount: Option<i64>,
    /// The currency of the amount.
    pub currency: Option<String>,
    /// Attempted payments.
    pub attempts: i64,
    /// Failed payments.
    pub failures: i64,
    /// When it was created.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// The month in which it was created, as `2026-01`.
    pub created_month: String,
    /// The month of the last change.
    pub changed_month: String,
    /// Its data.
    pub data: Value,
}

impl Row {
    pub(super) fn new<M: Live>(ctx: &Ctx, id: &str, reached: &Reached<M>) -> Result<Self> {
        let first = "SELECT ts FROM outcomes WHERE seq = 1";
        let created_at: Option<i64> = ctx.sql().exec(first, ())?.optional()?;
        let created_at = Time(created_at.unwrap_or(reached.ts));
        let updated_at = Time(reached.ts);
        let facts = reached.machine.facts();
        Ok(Self {
            id: id.to_owned(),
            kind: M::SCHEMA.name.to_owned(),
            state: reached.state.to_owned(),
            seq: reached.seq,
            customer: facts.customer,
            subscription: facts.subscription,
            amount: facts.amount.map(Money::amount),
            currency: facts.amount.map(|amount| amount.currency().to_string()),
            attempts: facts.attempts.into(),
            failures: facts.failures.into(),
            created_at,
            updated_at,
            created_month: month(created_at),
            changed_month: month(updated_at),
            data: serde_json::to_value(&reached.machine).map_err(Error::from_std)?,
        })
    }
}

impl Row {
    /// The table of all resources.
    pub fn table() -> Table {
        Table::new(TABLE)
            .column("kind", Type::Text)
            .column("state", Type::Text)
            .column("customer", Type::Text)
            .column("subscription", Type::Text)
            .column("amount", Type::Integer)
            .column("currency", Type::Text)
            .column("attempts", Type::Integer)
            .column("failures", Type::Integer)
            .column("created_at", Type::Integer)
            .column("updated_at", Type::Integer)
            .column("created_month", Type::Text)
            .column("changed_month", Type::Text)
            .column("data", Type::Text)
            .index(["kind", "state"])
            .index(["kind", "updated_at"])
            .index(["subscription"])
    }

    /// Writes it to a feed.
    pub(super) fn put(self, feed: &Feed) -> Result<()> {
        let mut values = serde_json::to_value(&self).map_err(Error::from_std)?;
        if let Some(values) = values.as_object_mut() {
            // The table has its own columns for these.
            values.remove("id");
            values.remove("seq");
        }
        Ok(feed.put(TABLE, self.id, self.seq, &values)?)
    }
}

fn month(at: Time) -> String {
    at.to_string().chars().take("2026-01".len()).collect()
}
