//! The consumer between the queue and a read model.

use std::{collections::BTreeMap, sync::Arc};

use abide::{Env, Error, Result};

use super::{Begun, ProjectionError, ReadModel, Row, Written, limits, metrics, row::Sent};
use crate::queue::{Batch, Consumer, Received};

/// Writes rows into a read model.
pub(super) struct Projector(pub(super) Arc<dyn ReadModel>);

impl Consumer for Projector {
    type Body = Sent;

    async fn consume(&self, batch: &Batch<Sent>) -> Result<()> {
        let now = batch.env().now().unix_millis();
        let rows = newest(batch.messages());
        metrics::lag(rows.iter().copied(), now);
        let begun = self.begin(batch.env(), begun(batch.messages())).await;
        let written = match begun {
            Ok(()) => {
                let rows = rows.iter().copied().cloned().collect();
                self.apply(batch.env(), rows).await
            }
            Err(error) => Err(error),
        };
        match written {
            Ok(written) => {
                metrics::written(&written);
                Ok(())
            }
            Err(error @ ProjectionError::Unavailable(_)) => Err(wait(batch.messages(), &error)),
            // One of them is at fault.
            Err(_) => self.one_by_one(batch).await,
        }
    }
}

impl Projector {
    /// Writes rows. A read model that does not answer is not ready: without this, the queue would count that as an attempt.
    async fn apply(&self, env: &Env, rows: Vec<Row>) -> Result<Written, ProjectionError> {
        within(env, self.0.apply(rows)).await
    }

    /// Records the timelines on which objects are.
    async fn begin(
        &self,
        env: &Env,
        timelines: impl IntoIterator<Item = Begun>,
    ) -> Result<(), ProjectionError> {
        for timeline in timelines {
            within(env, self.0.begin(timeline)).await?;
        }
        Ok(())
    }

    async fn one_by_one(&self, batch: &Batch<Sent>) -> Result<()> {
        let messages = batch.messages();
        let mut all = Written::new();
        for (index, message) in messages.iter().enumerate() {
            let written = match message.body.clone() {
                Sent::Row(row) => self.apply(batch.env(), vec![row]).await,
                Sent::Timeline(begun) => self
                    .begin(batch.env(), [begun])
                    .await
                    .map(|()| Written::new()),
            };
            match written {
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
                Err(error) => message.refuse(error.to_string()),
            }
        }
        metrics::written(&all);
        Ok(())
    }
}

/// Rows wait until the read model is available again, without using up attempts.
fn wait(messages: &[Received<Sent>], error: &ProjectionError) -> Error {
    metrics::failed();
    for message in messages {
        message.wait(error.to_string());
    }
    error.clone().into()
}

/// What a read model returns, or an error if it takes too long.
async fn within<T>(
    env: &Env,
    work: impl Future<Output = Result<T, ProjectionError>>,
) -> Result<T, ProjectionError> {
    let clock = env.clock();
    let late = abide::clock::time_limit(&**clock, limits::APPLY_TIMEOUT);
    tokio::select! {
        biased;
        done = work => done,
        () = late => Err(ProjectionError::Unavailable(format!(
            "no response within {} s",
            limits::APPLY_TIMEOUT.as_secs()
        ))),
    }
}

/// The newest timeline of each object that has begun one.
fn begun(messages: &[Received<Sent>]) -> impl Iterator<Item = Begun> {
    let mut newest: BTreeMap<&str, &Begun> = BTreeMap::new();
    for message in messages {
        if let Sent::Timeline(begun) = &message.body {
            let place = newest.entry(&begun.source).or_insert(begun);
            *place = (*place).max(begun);
        }
    }
    let newest: Vec<Begun> = newest.into_values().cloned().collect();
    newest.into_iter()
}

/// The newest change of each row, in the order of tables and ids: two batches that meet lock rows in the same order.
fn newest(messages: &[Received<Sent>]) -> Vec<&Row> {
    let mut newest: BTreeMap<(&str, &str, &str), &Row> = BTreeMap::new();
    for message in messages {
        let Sent::Row(row) = &message.body else {
            continue;
        };
        let key = (row.table.as_str(), row.id.as_str(), row.source.as_str());
        let place = newest.entry(key).or_insert(row);
        if place.version() < row.version() {
            *place = row;
        }
    }
    newest.into_values().collect()
}
