//! Operator requests to a shard of a queue, through the admin listener and the command.
//!
//! | Request below `/objects/QueueShard/{queue}%2F{shard}/components/queue` | Answer |
//! |---|---|
//! | `GET /` | 200 and how much is where, with the number of shards of the queue |
//! | `GET /dead-letters?limit=` | 200 and `{"dead_letters":[…]}`, newest first |
//! | `POST /pause`, `POST /resume` | 200 and how much is where: the whole queue is paused, all its shards |
//! | `POST /redrive`, `POST /discard` with `{"id":MESSAGE}` | the same; 404 `no_such_dead_letter` |
//! | the same with `{"died_until":MILLISECONDS}` | 200 and `{"count":N}`: this many of those that had died until then; again if that is 1,000 |

use std::rc::Rc;

use abide::{Request, Result, server::ApiError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::inner::NAME;
use super::{Counts, MessageId, Queue, QueueError, QueueShard, limits};
use abide_component::operating::{
    self, Answer, Verb, asked, body, json, no_operation, page, query,
};
use abide_component::texts::sentence;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    limit: Option<usize>,
}

/// One dead letter, or those that died until a time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, untagged)]
enum Which {
    One { id: MessageId },
    Some { died_until: i64 },
}

#[derive(Serialize)]
struct Shard {
    shards: u32,
    paused: bool,
    #[serde(flatten)]
    counts: Counts,
}

impl QueueShard {
    /// Serves operators through the object's component.
    pub(super) fn serve_operators(&self) -> Result<()> {
        let inner = Rc::clone(&self.inner);
        operating::serve(&self.inner.ctx, NAME, move |request| {
            let inner = Rc::clone(&inner);
            Self { inner }.operate(request)
        })
    }

    /// Answers an operator.
    pub(super) async fn operate(self, request: Request) -> Answer {
        let (verb, path) = asked(&request);
        match (verb, &*path) {
            (Verb::Read, "") => {}
            (Verb::Read, "dead-letters") => {
                let wanted: Wanted = query(&request)?;
                let limit = page(wanted.limit, limits::MAX_PAGE)?;
                let letters = self.dead_letters(limit).await.map_err(refused)?;
                return Ok(json(&json!({ "dead_letters": letters })));
            }
            (Verb::Change, "pause") => self.queue()?.pause().await.map_err(refused)?,
            (Verb::Change, "resume") => self.queue()?.resume().await.map_err(refused)?,
            (Verb::Change, "redrive" | "discard") => {
                let redrive = path == "redrive";
                match body(request).await? {
                    Which::Some { died_until } => {
                        let count = self
                            .sweep(redrive, died_until, u64::MAX)
                            .await
                            .map_err(refused)?;
                        return Ok(json(&json!({ "count": count })));
                    }
                    Which::One { id } if id.shard != self.inner.rows.shard => {
                        return Err(refused(QueueError::NotFound { id }));
                    }
                    Which::One { id } if redrive => {
                        self.redrive(id.number).await.map_err(refused)?;
                    }
                    Which::One { id } => self.discard(id.number).await.map_err(refused)?,
                }
            }
            _ => return Err(no_operation("A shard of a queue")),
        }
        Ok(json(&self.standing()?))
    }

    fn queue(&self) -> Result<Queue, ApiError> {
        let inner = &self.inner;
        Queue::new(inner.ctx.env(), &inner.rows.queue).map_err(refused)
    }

    fn standing(&self) -> Result<Shard, ApiError> {
        let declared = self.inner.declared().map_err(refused)?;
        Ok(Shard {
            shards: declared.options.shards,
            paused: self.inner.rows.meta()?.paused,
            counts: self.inner.counts()?,
        })
    }
}

fn refused(error: QueueError) -> ApiError {
    match error {
        QueueError::NotFound { .. } => ApiError::not_found("no_such_dead_letter", sentence(&error)),
        error => abide::Error::from(error).into(),
    }
}
