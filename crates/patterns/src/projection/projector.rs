//! The consumer between the queue and a read model.

use std::{collections::BTreeMap, sync::Arc};

use abide::Result;

use super::{ProjectionError, ReadModel, Row, Written, figures};
use crate::broken::{Variant, broken};
use crate::queue::{Batch, Consumer, Received};

/// Writes rows into a read model.
pub(super) struct Projector(pub(super) Arc<dyn ReadModel>);

impl Consumer for Projector {
    type Body = Row;

    async fn consume(&self, batch: &Batch<Row>) -> Result<()> {
        let now = i64::try_from(batch.env().clock().unix_millis()).unwrap_or(i64::MAX);
        let rows = newest(batch.messages());
        figures::lag(rows.iter().copied(), now);
        match self.0.apply(rows.iter().copied().cloned().collect()).await {
            Ok(written) => {
                figures::written(&written);
                Ok(())
            }
            Err(ProjectionError::Unavailable(_)) if broken(Variant::AbsentMeansWritten) => Ok(()),
            Err(ProjectionError::Unavailable(error)) => {
                figures::failed();
                Err(ProjectionError::Unavailable(error).into())
            }
            // One of them is at fault.
            Err(_) => self.one_by_one(batch.messages()).await,
        }
    }
}

impl Projector {
    async fn one_by_one(&self, messages: &[Received<Row>]) -> Result<()> {
        let mut all = Written::new();
        for message in messages {
            match self.0.apply(vec![message.body.clone()]).await {
                Ok(written) => {
                    message.ack();
                    for (table, count) in written {
                        *all.entry(table).or_default() += count;
                    }
                }
                Err(error @ ProjectionError::Unavailable(_)) => {
                    figures::failed();
                    return Err(error.into());
                }
                Err(_) if broken(Variant::RefusedUnseen) => message.ack(),
                Err(error) => message.refuse(error.to_string()),
            }
        }
        figures::written(&all);
        Ok(())
    }
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
