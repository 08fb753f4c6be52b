//! Reading messages: one, or a page of them, newest first.

use abide::Result;
use abide_macros::Setters;
use serde::{Deserialize, Serialize};

use super::{Change, Outbox, Record, Status, limits, rows::RECORD};
use abide_component::numbers::rows;

/// A filter for a page of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Setters)]
#[non_exhaustive]
pub struct MessageFilter {
    /// Only those with this status. `None`: all.
    #[setters(into)]
    pub status: Option<Status>,
    /// Only those with a lower id; the `next` of the page before.
    #[setters(into)]
    pub before: Option<i64>,
    /// At most this many; 0 and more than 1,000 count as 1,000.
    pub limit: usize,
}

/// A filter for dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Setters)]
#[non_exhaustive]
pub struct DeadLetterFilter {
    /// Only those of this kind.
    #[setters(into)]
    pub kind: Option<String>,
    /// Only those to this destination.
    #[setters(into)]
    pub destination: Option<String>,
    /// Only those with a lower id.
    #[setters(into)]
    pub before: Option<i64>,
    /// Only those with a higher id.
    #[setters(into)]
    #[serde(default)]
    pub after: Option<i64>,
    /// At most this many; 0 and more than 1,000 count as 1,000.
    pub limit: usize,
}

/// A page of messages, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Page {
    /// The messages.
    pub records: Vec<Record>,
    /// The `before` of the next page, if there is one.
    pub next: Option<i64>,
}

impl Outbox {
    /// A message, dead letters included.
    pub fn get(&self, id: i64) -> Result<Option<Record>> {
        self.0.rows.record(id)
    }

    /// A message's payload: a JSON text.
    pub fn payload(&self, id: i64) -> Result<Option<String>> {
        self.0.rows.payload(id)
    }

    /// A message's history, oldest first: the first event and the newest 99.
    pub fn history(&self, id: i64) -> Result<Vec<Change>> {
        self.0.rows.history(id)
    }

    /// A page of messages.
    pub fn list(&self, filter: &MessageFilter) -> Result<Page> {
        let before = filter.before.unwrap_or(i64::MAX);
        let sql = &self.0.rows.sql;
        let limit = limit(filter.limit);
        let found = match filter.status {
            Some(Status::Failed) => {
                let filter = DeadLetterFilter {
                    before: filter.before,
                    limit: filter.limit,
                    ..DeadLetterFilter::default()
                };
                return self.dead_letters(&filter);
            }
            Some(Status::Sending) => sql.exec(
                &format!(
                    "SELECT {RECORD} FROM outbox_messages INDEXED BY outbox_in_flight
                         WHERE status = 'sending' AND next_at IS NULL AND id < ?1
                     UNION ALL SELECT {RECORD} FROM outbox_messages INDEXED BY outbox_operation
                         WHERE status = 'sending' AND next_at IS NOT NULL AND id < ?1
                     ORDER BY id DESC LIMIT ?2"
                ),
                (before, rows(limit + 1)),
            )?,
            Some(status) => sql.exec(
                &format!(
                    "SELECT {RECORD} FROM outbox_messages INDEXED BY outbox_status
                     WHERE status <> 'sending' AND status = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3"
                ),
                (status.as_str(), before, rows(limit + 1)),
            )?,
            None => sql.exec(
                &format!(
                    "SELECT {RECORD} FROM outbox_messages WHERE id < ?1
                     UNION ALL SELECT {RECORD} FROM outbox_dead_letters WHERE id < ?1
                     ORDER BY id DESC LIMIT ?2"
                ),
                (before, rows(limit + 1)),
            )?,
        };
        Ok(page(found.all()?, limit))
    }

    /// A page of messages that would have been given up, if the outbox gave messages up ([`GiveUp::Never`](super::GiveUp::Never)):
    /// with their attempts and their last error. `before` is the `next` of the page before; a limit of 0, or of more than
    /// 1,000, counts as 1,000.
    pub fn failing(&self, before: Option<i64>, limit: usize) -> Result<Page> {
        let limit = self::limit(limit);
        let found = self.0.rows.sql.exec(
            &format!(
                "SELECT {RECORD} FROM outbox_messages INDEXED BY outbox_failing
                 WHERE failing_since IS NOT NULL AND id < ?1 ORDER BY id DESC LIMIT ?2"
            ),
            (before.unwrap_or(i64::MAX), rows(limit + 1)),
        )?;
        Ok(page(found.all()?, limit))
    }

    /// A page of dead letters.
    pub fn dead_letters(&self, filter: &DeadLetterFilter) -> Result<Page> {
        let limit = limit(filter.limit);
        let found = self.find_dead(filter, "DESC", limit + 1)?;
        Ok(page(found, limit))
    }

    /// Dead letters in an order of their ids, `ASC` or `DESC`.
    pub(super) fn find_dead(
        &self,
        filter: &DeadLetterFilter,
        order: &str,
        limit: usize,
    ) -> Result<Vec<Record>> {
        let conditions = match (&filter.kind, &filter.destination) {
            (None, None) => "",
            (Some(_), None) => "AND kind = ?4",
            (None, Some(_)) => "AND destination = ?5",
            (Some(_), Some(_)) => "AND destination = ?5 AND kind = ?4",
        };
        let sql = format!(
            "SELECT {RECORD} FROM outbox_dead_letters WHERE id < ?1 AND id > ?2 {conditions} ORDER BY id {order} LIMIT ?3"
        );
        let before = filter.before.unwrap_or(i64::MAX);
        let after = filter.after.unwrap_or(0);
        let limit = rows(limit);
        let database = &self.0.rows.sql;
        match (&filter.kind, &filter.destination) {
            (None, None) => database.exec(&sql, (before, after, limit)),
            (kind, None) => database.exec(&sql, (before, after, limit, kind)),
            (kind, to) => database.exec(&sql, (before, after, limit, kind, to)),
        }?
        .all()
    }
}

pub(super) fn limit(asked: usize) -> usize {
    match asked {
        0 => limits::MAX_PAGE,
        asked => asked.min(limits::MAX_PAGE),
    }
}

/// One record more than requested tells whether there is a next page.
fn page(mut records: Vec<Record>, limit: usize) -> Page {
    let more = records.len() > limit;
    records.truncate(limit);
    Page {
        next: records.last().filter(|_| more).map(|last| last.id),
        records,
    }
}
