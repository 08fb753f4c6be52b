//! What operators do with the feed of any object, through the admin listener and the command.
//!
//! | Request below `/objects/{class}/{object}/components/projection` | Answer |
//! |---|---|
//! | `GET /` | 200 and where the feed is, with how much is where in the `read_model`'s queue: `null` if that cannot be asked |
//! | `GET /rows?table=&id=&limit=` | 200 and `{"rows":[…]}`: the rows that wait, by table and id, from the first after another |
//! | `POST /retry` | 200 and where the feed is: what waits is handed to the queue at once |
//!
//! A read model is paused, and its dead letters are consumed again, by the operations of its queue.

use abide::{Ctx, Request, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Feed, FeedStanding, feed::NAME, limits};
use crate::queue::{Counts, Queue};
use abide_component::operating::{self, Answer, Verb, asked, json, no_operation, page, query};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    table: Option<String>,
    id: Option<String>,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct Standing {
    #[serde(flatten)]
    feed: FeedStanding,
    read_model: Option<Counts>,
}

impl Feed {
    /// Serves operators through the object's component.
    pub(super) fn serve_operators(&self, ctx: &Ctx) -> Result<()> {
        let feed = self.clone();
        operating::serve(ctx, NAME, move |request| feed.clone().operate(request))
    }

    /// Answers an operator.
    pub(super) async fn operate(self, request: Request) -> Answer {
        let (verb, path) = asked(&request);
        match (verb, &*path) {
            (Verb::Read, "") => {}
            (Verb::Read, "rows") => {
                let wanted: Wanted = query(&request)?;
                let limit = page(wanted.limit, limits::MAX_PAGE)?;
                let id = wanted.id.unwrap_or_default();
                let after = wanted.table.as_deref().map(|table| (table, &*id));
                return Ok(json(&json!({ "rows": self.rows(after, limit)? })));
            }
            (Verb::Change, "retry") => self.retry()?,
            _ => return Err(no_operation("A feed")),
        }
        let feed = self.standing()?;
        let read_model = match Queue::new(self.env(), &feed.queue) {
            Ok(queue) => queue.counts().await.ok(),
            Err(_) => None,
        };
        Ok(json(&Standing { feed, read_model }))
    }
}
