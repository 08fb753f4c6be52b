//! Request and response bodies of the HTTP API.

use abide::server::ApiError;
use abide_component::operating::page;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    Change, Counts, DeadLetterFilter, Destination, MessageFilter, Page, Record, Status, limits,
};

/// The query for a page of messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) status: Option<Status>,
    pub(crate) before: Option<i64>,
    pub(crate) limit: Option<usize>,
}

/// The query for a page of dead letters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedDead {
    pub(crate) kind: Option<String>,
    pub(crate) destination: Option<String>,
    pub(crate) before: Option<i64>,
    pub(crate) limit: Option<usize>,
}

/// The query for a page of failing messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedFailing {
    pub(crate) before: Option<i64>,
    pub(crate) limit: Option<usize>,
}

/// Which dead letters to redrive or discard: all, or those of a kind or to a destination.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    pub(crate) kind: Option<String>,
    pub(crate) destination: Option<String>,
    pub(crate) after: Option<i64>,
}

/// A destination.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resumed {
    pub(crate) destination: String,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    pub(crate) messages: Vec<Record>,
    pub(crate) next: Option<i64>,
}

#[derive(Serialize)]
pub(crate) struct Failing {
    pub(crate) destinations: Vec<Destination>,
    pub(crate) messages: Vec<Record>,
    pub(crate) next: Option<i64>,
}

#[derive(Serialize)]
pub(crate) struct Overview {
    pub(crate) counts: Counts,
    pub(crate) destinations: Vec<Destination>,
}

#[derive(Serialize)]
pub(crate) struct Whole {
    #[serde(flatten)]
    pub(crate) record: Record,
    pub(crate) payload: Box<RawValue>,
    pub(crate) history: Vec<Change>,
}

impl Wanted {
    pub(crate) fn filter(&self) -> Result<MessageFilter, ApiError> {
        Ok(MessageFilter {
            status: self.status,
            before: self.before,
            limit: page(self.limit, limits::MAX_PAGE)?,
        })
    }
}

impl WantedDead {
    pub(crate) fn filter(self) -> Result<DeadLetterFilter, ApiError> {
        Ok(DeadLetterFilter {
            kind: self.kind,
            destination: self.destination,
            before: self.before,
            limit: page(self.limit, limits::MAX_PAGE)?,
            after: None,
        })
    }
}

impl From<Page> for Listed {
    fn from(page: Page) -> Self {
        Self {
            messages: page.records,
            next: page.next,
        }
    }
}

impl Failing {
    pub(crate) fn new(destinations: Vec<Destination>, page: Page) -> Self {
        Self {
            destinations,
            messages: page.records,
            next: page.next,
        }
    }
}

impl Whole {
    pub(crate) fn new(
        record: Record,
        payload: String,
        history: Vec<Change>,
    ) -> abide::Result<Self> {
        Ok(Self {
            record,
            payload: RawValue::from_string(payload).map_err(abide::Error::from_std)?,
            history,
        })
    }
}

impl From<Which> for DeadLetterFilter {
    fn from(which: Which) -> Self {
        Self {
            kind: which.kind,
            destination: which.destination,
            before: None,
            limit: limits::MAX_BATCH,
            after: which.after,
        }
    }
}
