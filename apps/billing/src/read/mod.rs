//! Queries of the read model.
//!
//! Contract: the read model is a copy of the newest state of every resource, in one table, and may lag or be missing.
//! Pages and lists read it; decisions never do. The queries use the SQL that SQLite and `PostgreSQL` share.

mod lag;
mod list;
mod rebuild;

use std::{collections::BTreeMap, fmt, sync::Arc};

use abide::projection::{ProjectionError, ReadModel, Tables};
use abide::{Error, ErrorKind, Result, Value};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    Currency, DUNNING_DAYS, Money, Time,
    pages::view::{Cohort, Listed, Month, Overview},
    resource::{Row, TABLE},
};

pub use lag::Lag;
pub(crate) use list::{Filter, MAX_PAGE};
pub use rebuild::{Rebuilt, rebuild};

/// Months that the overview shows.
const MONTHS: i64 = 12;

/// Cohorts that the overview shows.
const COHORTS: usize = 6;

/// Rows of a page.
pub(crate) const PAGE: usize = 50;

/// Subscriptions that the overview shows.
const NEWEST: usize = 8;

/// The read model for queries. Share it with [`HostBuilder::with`](abide::server::HostBuilder::with).
#[derive(Clone)]
pub struct Reader(pub Arc<dyn ReadModel>);

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}

/// The tables of the read model.
pub fn tables() -> Result<Tables, ProjectionError> {
    Tables::new([Row::table()])
}

/// A row as it is listed.
#[derive(Deserialize)]
struct Stored {
    id: String,
    state: String,
    customer: Option<String>,
    amount: Option<i64>,
    currency: Option<String>,
    attempts: i64,
    created_at: Time,
    updated_at: Time,
}

impl From<Stored> for Listed {
    fn from(row: Stored) -> Self {
        let currency: Option<Currency> = row.currency.and_then(|code| code.parse().ok());
        let amount = currency.zip(row.amount);
        Self {
            id: row.id,
            state: row.state,
            customer: row.customer.unwrap_or_default(),
            amount: amount.and_then(|(currency, amount)| Money::new(amount, currency).ok()),
            attempts: row.attempts,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

const COLUMNS: &str = "id, state, customer, amount, currency, attempts, created_at, updated_at";

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

impl Reader {
    async fn ask<T: DeserializeOwned>(&self, sql: &str, given: &[&str]) -> Result<Vec<T>> {
        let given = given.iter().map(|given| text(given)).collect();
        Ok(self.0.rows(sql, given).await?)
    }

    /// The data of the overview page.
    pub(crate) async fn overview(&self, now: Time) -> Result<Overview> {
        #[derive(Deserialize)]
        struct Counted {
            state: String,
            many: u64,
        }
        let states =
            format!("SELECT state, count(*) AS many FROM {TABLE} WHERE kind = $1 GROUP BY state");
        let newest = format!(
            "SELECT {COLUMNS} FROM {TABLE} WHERE kind = $1 ORDER BY updated_at DESC, id LIMIT {NEWEST}"
        );
        let states: Vec<Counted> = self.ask(&states, &["subscription"]).await?;
        let newest: Vec<Stored> = self.ask(&newest, &["subscription"]).await?;
        let currency = self.currency().await?;
        Ok(Overview {
            states: states
                .into_iter()
                .map(|counted| (counted.state, counted.many))
                .collect(),
            currency,
            months: self.months(currency, now).await?,
            cohorts: self.cohorts().await?,
            newest: newest.into_iter().map(Listed::from).collect(),
        })
    }

    /// The currency of most paid invoices.
    async fn currency(&self) -> Result<Currency> {
        #[derive(Deserialize)]
        struct Most {
            currency: String,
        }
        let most = format!(
            "SELECT currency FROM {TABLE} WHERE kind = $1 AND state = $2 AND currency IS NOT NULL
             GROUP BY currency ORDER BY count(*) DESC LIMIT 1"
        );
        let found: Vec<Most> = self.ask(&most, &["invoice", "paid"]).await?;
        let code = found.first().map_or("EUR", |most| &most.currency);
        code.parse().map_err(Error::from_std)
    }

    async fn months(&self, currency: Currency, now: Time) -> Result<Vec<Month>> {
        #[derive(Deserialize)]
        struct Sum {
            changed_month: String,
            thousands: i64,
            rest: i64,
            many: u64,
        }
        let names = months_before(now)?;
        let first = names.first().cloned().unwrap_or_default();
        // Split in two, because the sum may exceed a database integer, which is an error.
        let sums = format!(
            "SELECT changed_month, CAST(sum(amount / 1000) AS BIGINT) AS thousands,
                 CAST(sum(amount % 1000) AS BIGINT) AS rest, count(*) AS many FROM {TABLE}
             WHERE kind = $1 AND state = $2 AND currency = $3 AND changed_month >= $4 GROUP BY changed_month"
        );
        let given = ["invoice", "paid", currency.code(), &first];
        let sums: Vec<Sum> = self.ask(&sums, &given).await?;
        let mut sums: BTreeMap<String, Sum> = sums
            .into_iter()
            .map(|sum| (sum.changed_month.clone(), sum))
            .collect();
        let month = |name| {
            let (paid, invoices) = sums.remove(&name).map_or((Some(0), 0), |sum| {
                let thousands = sum.thousands.checked_mul(1000);
                let paid = thousands.and_then(|thousands| thousands.checked_add(sum.rest));
                (paid, sum.many)
            });
            Month {
                paid: paid.and_then(|paid| Money::new(paid, currency).ok()),
                invoices,
                name,
            }
        };
        Ok(names.into_iter().map(month).collect())
    }

    async fn cohorts(&self) -> Result<Vec<Cohort>> {
        #[derive(Deserialize)]
        struct Failed {
            created_month: String,
            state: String,
            attempts: i64,
            many: u64,
        }
        let failed = format!(
            "SELECT created_month, state, attempts, count(*) AS many FROM {TABLE}
             WHERE kind = $1 AND failures > 0 GROUP BY created_month, state, attempts ORDER BY created_month DESC"
        );
        let mut cohorts: Vec<Cohort> = Vec::new();
        for row in self.ask::<Failed>(&failed, &["invoice"]).await? {
            if cohorts
                .last()
                .is_none_or(|cohort| cohort.month != row.created_month)
            {
                if cohorts.len() == COHORTS {
                    break;
                }
                cohorts.push(Cohort {
                    month: row.created_month,
                    failed: 0,
                    won: [0; DUNNING_DAYS.len() + 1],
                    open: 0,
                    lost: 0,
                });
            }
            let Some(cohort) = cohorts.last_mut() else {
                break;
            };
            cohort.failed += row.many;
            match &*row.state {
                "paid" => {
                    let retry = usize::try_from(row.attempts - 2).unwrap_or(0);
                    cohort.won[retry.min(DUNNING_DAYS.len())] += row.many;
                }
                "open" | "draft" => cohort.open += row.many,
                _ => cohort.lost += row.many,
            }
        }
        Ok(cohorts)
    }

    /// Subscriptions with a state, or all, after an id.
    pub(crate) async fn subscriptions(
        &self,
        state: Option<&str>,
        after: &str,
    ) -> Result<Vec<Listed>> {
        let mut given = vec!["subscription", after];
        let only = match state {
            Some(state) => {
                given.push(state);
                "AND state = $3"
            }
            None => "",
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM {TABLE} WHERE kind = $1 AND id > $2 {only} ORDER BY id LIMIT {PAGE}"
        );
        let rows: Vec<Stored> = self.ask(&sql, &given).await?;
        Ok(rows.into_iter().map(Listed::from).collect())
    }

    /// The newest invoices of a subscription.
    pub(crate) async fn invoices(&self, subscription: &str) -> Result<Vec<Listed>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM {TABLE} WHERE kind = $1 AND subscription = $2 ORDER BY created_at DESC LIMIT {PAGE}"
        );
        let rows: Vec<Stored> = self.ask(&sql, &["invoice", subscription]).await?;
        Ok(rows.into_iter().map(Listed::from).collect())
    }
}

/// The months up to that of a moment, as `2026-01`.
fn months_before(now: Time) -> Result<Vec<String>> {
    let month = month(now);
    let far = || Error::with_kind(ErrorKind::Input, "the clock is beyond the calendar");
    let (year, number) = month.split_once('-').ok_or_else(far)?;
    let number: Option<i64> = number.parse().ok();
    let year: Option<i64> = year.parse().ok();
    let last = year.ok_or_else(far)? * 12 + number.ok_or_else(far)? - 1;
    Ok((last - MONTHS + 1..=last)
        .map(|month| {
            format!(
                "{:04}-{:02}",
                month.div_euclid(12),
                month.rem_euclid(12) + 1
            )
        })
        .collect())
}

/// The month of a moment, as `2026-01`.
fn month(at: Time) -> String {
    at.to_string().chars().take(7).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_go_back_over_the_years_end() {
        let months = months_before(Time(1_772_000_000_000)).unwrap();
        assert_eq!(months.len(), 12);
        assert_eq!((&*months[0], &*months[11]), ("2025-03", "2026-02"));
    }
}
