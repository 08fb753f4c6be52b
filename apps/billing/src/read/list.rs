//! Pages of resources of one kind.

use abide::{Result, Value};
use serde::{Deserialize, Serialize};

use super::{Reader, TABLE, text};
use crate::{Currency, Money, Time, states::Metadata};

/// Maximum number of rows of a page.
pub(crate) const MAX_PAGE: usize = 100;

/// The filter of a list: all resources of a kind that match every given field.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// The state.
    pub(crate) state: Option<String>,
    /// The customer's id.
    pub(crate) customer: Option<String>,
    /// The subscription's id.
    pub(crate) subscription: Option<String>,
    /// Created at or after this time.
    pub(crate) created_from: Option<i64>,
    /// Created before this time.
    pub(crate) created_before: Option<i64>,
    /// Only ids after this one.
    #[serde(default)]
    pub(crate) after: String,
    /// The maximum number of resources.
    pub(crate) limit: Option<usize>,
}

/// A resource as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) customer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subscription: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) amount: Option<Money>,
    pub(crate) created_at: Time,
    pub(crate) updated_at: Time,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub(crate) metadata: Metadata,
}

#[derive(Deserialize)]
struct Stored {
    id: String,
    state: String,
    customer: Option<String>,
    subscription: Option<String>,
    amount: Option<i64>,
    currency: Option<String>,
    created_at: Time,
    updated_at: Time,
    data: String,
}

#[derive(Deserialize)]
struct Known {
    #[serde(default)]
    metadata: Metadata,
}

impl From<Stored> for Item {
    fn from(row: Stored) -> Self {
        let currency: Option<Currency> = row.currency.and_then(|code| code.parse().ok());
        let amount = currency.zip(row.amount);
        let known: Option<Known> = serde_json::from_str(&row.data).ok();
        Self {
            id: row.id,
            state: row.state,
            customer: row.customer,
            subscription: row.subscription,
            amount: amount.and_then(|(currency, amount)| Money::new(amount, currency).ok()),
            created_at: row.created_at,
            updated_at: row.updated_at,
            metadata: known.map(|known| known.metadata).unwrap_or_default(),
        }
    }
}

impl Reader {
    /// A page of a kind, ordered by id, and the start of the next one, if any.
    pub(crate) async fn list(
        &self,
        kind: &str,
        filter: &Filter,
    ) -> Result<(Vec<Item>, Option<String>)> {
        let limit = filter.limit.unwrap_or(super::PAGE).clamp(1, MAX_PAGE);
        let mut given = vec![text(kind), text(&filter.after)];
        let mut only = String::new();
        let mut narrow = |column: &str, value: Option<Value>| {
            if let Some(value) = value {
                given.push(value);
                let place = given.len().to_string();
                only.extend([" AND ", column, " $", &place]);
            }
        };
        narrow("state =", filter.state.as_deref().map(text));
        narrow("customer =", filter.customer.as_deref().map(text));
        narrow("subscription =", filter.subscription.as_deref().map(text));
        narrow("created_at >=", filter.created_from.map(Value::Integer));
        narrow("created_at <", filter.created_before.map(Value::Integer));
        let sql = format!(
            "SELECT id, state, customer, subscription, amount, currency, created_at, updated_at, data FROM {TABLE}
             WHERE kind = $1 AND id > $2{only} ORDER BY id LIMIT {}",
            limit + 1
        );
        let mut rows: Vec<Stored> = self.0.rows(&sql, given).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|row| row.id.clone());
        Ok((rows.into_iter().map(Item::from).collect(), next))
    }
}
