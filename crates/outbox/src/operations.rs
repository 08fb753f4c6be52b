//! Operator requests to the outbox of any object, through the admin listener and the command.
//!
//! Contract: paths, bodies and responses are those of the [built-in outbox](crate::service), below
//! `/objects/{class}/{object}/components/outbox` instead of `/outbox/{name}`; nothing is enqueued, and callbacks are
//! listed and repeated, which a built-in outbox does not have. An edit needs a kind
//! that is [open to clients](super::Registry::open_to_clients), as it does there.

use abide::{Ctx, Request, Result, server::ApiError};
use axum::{
    http::{Method, StatusCode},
    response::IntoResponse,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    NAME, Outbox, OutboxError, Record, Status,
    forms::{Failing, Listed, Overview, Resumed, Wanted, WantedDead, WantedFailing, Which, Whole},
    limits, redaction,
    refusal::refused,
};
use abide_component::operating::{self, Answer, body, json, no_operation, page, query};

impl Outbox {
    /// Serves operators through the object's component.
    pub(super) fn serve_operators(&self, ctx: &Ctx) -> Result<()> {
        let outbox = self.clone();
        operating::serve(ctx, NAME, move |request| outbox.clone().operate(request))
    }

    /// Answers an operator.
    pub(super) async fn operate(self, request: Request) -> Answer {
        let path = request.uri().path().to_owned();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let method = match request.method() {
            &Method::HEAD => Method::GET,
            method => method.clone(),
        };
        match (method, parts.as_slice()) {
            (Method::GET, []) => Ok(json(&Overview {
                counts: self.counts()?,
                destinations: self.destinations(limits::MAX_PAGE)?,
            })),
            (Method::GET, ["messages"]) => {
                let wanted: Wanted = query(&request)?;
                Ok(json(&Listed::from(self.list(&wanted.filter()?)?)))
            }
            (Method::GET, ["dead-letters"]) => {
                let wanted: WantedDead = query(&request)?;
                Ok(json(&Listed::from(self.dead_letters(&wanted.filter()?)?)))
            }
            (Method::GET, ["failing"]) => {
                let wanted: WantedFailing = query(&request)?;
                let destinations = self.failing_destinations(limits::MAX_PAGE)?;
                let limit = page(wanted.limit, limits::MAX_PAGE)?;
                let page = self.failing(wanted.before, limit)?;
                Ok(json(&Failing::new(destinations, page)))
            }
            (Method::GET, ["messages", id]) => {
                let id = number(id)?;
                let (record, payload) = self
                    .get(id)?
                    .zip(self.shown_payload(id)?)
                    .ok_or_else(|| refused(OutboxError::NotFound { id }))?;
                Ok(json(&Whole::new(record, payload, self.history(id)?)?))
            }
            (Method::DELETE, ["messages", id]) => record(self.remove(number(id)?)),
            (Method::POST, ["messages", id, "give-up"]) => record(self.give_up(number(id)?)),
            (Method::POST, ["messages", id, "redrive"]) => record(self.redrive(number(id)?)),
            (Method::PUT, ["messages", id, "payload"]) => {
                let id = number(id)?;
                let payload: Box<RawValue> = body(request).await?;
                record(self.edit_open(id, payload.get()))
            }
            (Method::GET, ["callbacks"]) => Ok(json(&self.callbacks(limits::MAX_PAGE)?)),
            (Method::POST, ["callbacks", "repeat"]) => Ok(json(&Repeated {
                count: self.repeat_callbacks()?,
            })),
            (Method::POST, ["redrive"]) => {
                let which: Which = body(request).await?;
                Ok(json(&self.redrive_all(&which.into()).map_err(refused)?))
            }
            (Method::POST, ["discard"]) => {
                let which: Which = body(request).await?;
                Ok(json(&self.discard_all(&which.into()).map_err(refused)?))
            }
            (Method::POST, ["destinations", "resume"]) => {
                let Resumed { destination } = body(request).await?;
                if self.resume(&destination)? {
                    return Ok(StatusCode::NO_CONTENT.into_response());
                }
                Err(no_such_destination())
            }
            _ => Err(no_operation("An outbox")),
        }
    }

    /// Cancels a message that has not ended, or discards a dead letter.
    pub(crate) fn remove(&self, id: i64) -> Result<Record, OutboxError> {
        match self.get(id)? {
            Some(record) if record.status == Status::Failed => self.discard(id),
            _ => self.cancel(id),
        }
    }

    /// Edits a dead letter, if clients may write messages of its kind.
    pub(crate) fn edit_open(&self, id: i64, payload: &str) -> Result<Record, OutboxError> {
        if let Some(Record { kind, .. }) = self.get(id)?
            && !self.0.registry.open_kinds().any(|open| open == kind)
        {
            return Err(OutboxError::ClosedKind { kind });
        }
        let stored = self.payload(id)?.unwrap_or_default();
        let restored = redaction::restored(payload, &stored);
        self.edit(id, restored.as_deref().unwrap_or(payload))
    }

    /// A message's payload as it is shown: without the values of secret headers.
    pub(crate) fn shown_payload(&self, id: i64) -> Result<Option<String>> {
        let payload = self.payload(id)?;
        Ok(payload.map(redaction::redacted))
    }
}

/// How many callbacks are called again.
#[derive(Serialize)]
struct Repeated {
    count: usize,
}

/// An error: the outbox has no such destination.
pub(crate) fn no_such_destination() -> ApiError {
    ApiError::not_found(
        "no_such_destination",
        "This outbox has no messages to this destination.",
    )
}

fn record(record: Result<Record, OutboxError>) -> Answer {
    Ok(json(&record.map_err(refused)?))
}

fn number(text: &str) -> Result<i64, ApiError> {
    text.parse().map_err(|_| {
        ApiError::bad_request(
            "invalid_path",
            "The address cannot be read: a message has a number.",
        )
    })
}
