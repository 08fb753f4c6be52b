//! The consumer between the queue and a read model.

use std::{collections::BTreeMap, sync::Arc};

use abide::{Env, Error, Result};

use super::{ProjectionError, ReadModel, Row, Written, limits, metrics};
use crate::broken::{Variant, broken};
use crate::queue::{Batch, Consumer, Received};

/// Writes rows into a read model.
pub(super) struct Projector(pub(super) Arc<dyn ReadModel>);

impl Consumer for Projector {
    type Body = Row;

    async fn consume(&self, batch: &Batch<Row>) -> Result<()> {
        let now = i64::try_from(batch.env().clock().unix_millis()).unwrap_or(i64::MAX);
        let rows = newest(batch.messages());
        metrics::lag(rows.iter().copied(), now);
        match self
            .apply(batch.env(), rows.iter().copied().cloned().collect())
            .await
        {
            Ok(written) => {
                metrics::written(&written);
                Ok(())
            }
            Err(ProjectionError::Unavailable(_)) if broken(Variant::AbsentMeansWritten) => Ok(()),
            Err(error @ ProjectionError::Unavailable(_)) => Err(wait(batch.messages(), &error)),
            // One of them is at fault.
            Err(_) => self.one_by_one(batch).await,
        }
    }
}

impl Projector {
    /// Writes rows. A read model that does not answer is not ready: without this, the queue would count that as an attempt.
    async fn apply(&self, env: &Env, rows: Vec<Row>) -> Result<Written, ProjectionError> {
        let clock = env.clock();
        let late = abide::clock::time_limit(&**clock, limits::APPLY_TIMEOUT);
        tokio::select! {
            biased;
            written = self.0.apply(rows) => written,
            () = late => Err(ProjectionError::Unavailable(format!(
                "no response within {} s",
                limits::APPLY_TIMEOUT.as_secs()
            ))),
        }
    }

    async fn one_by_one(&self, batch: &Batch<Row>) -> Result<()> {
        let messages = batch.messages();
        let mut all = Written::new();
        for (index, message) in messages.iter().enumerate() {
            match self.apply(batch.env(), vec![message.body.clone()]).await {
                Ok(written) => {
                    message.ack();
                    for (table, count) in written {
                        *all.entry(table).or_default() += count;
                    }
                }
                Err(error @ ProjectionError::Unavailable(_)) => {
                    metrics::written(&all);
                    return Err(wait(&messages[index..], &error));
                }
                Err(_) if broken(Variant::RefusedUnseen) => message.ack(),
                Err(error) => message.refuse(error.to_string()),
            }
        }
        metrics::written(&all);
        Ok(())
    }
}

/// Rows wait until the read model is available again, without using up attempts.
fn wait(messages: &[Received<Row>], error: &ProjectionError) -> Error {
    metrics::failed();
    if !broken(Variant::WaitCounts) {
        for message in messages {
            message.wait(error.to_string());
        }
    }
    error.clone().into()
}

/// The newest change of each row, in the order of tables and ids: two batches that meet lock rows in the same order.
fn newest(messages: &[Received<Row>]) -> Vec<&Row> {
    let mut newest: BTreeMap<(&str, &str), &Row> = BTreeMap::new();
    for message in messages {
        let row = &message.body;
        let place = newest.entry((&row.table, &row.id)).or_insert(row);
        if place.seq < row.seq && !broken(Variant::OldestOfBatch) {
            *place = row;
        }
    }
    newest.into_values().collect()
}
