//! Operator requests to the schedule of any object, through the admin listener and the command.
//!
//! | Request below `/objects/{class}/{object}/components/schedule` | Answer |
//! |---|---|
//! | `GET /timers?after=&limit=` | 200 and `{"timers":[…]}`, by name, from the first after another |
//! | `GET /failed?after=&limit=` | 200 and `{"runs":[…]}`: what has failed, oldest first, from the first whose id is higher |
//! | `GET /history?timer=&before=&limit=` | 200 and `{"entries":[…]}`, newest first, from the first whose id is lower |
//! | `POST /run`, `/retry`, `/discard` with `{"timer":NAME}` | 200 and the timer, or `null` if it has ended and is forgotten; 404 `no_such_timer`; 409 `timer_busy`, `timer_not_failed` |

use abide::{Ctx, Request, Result, server::ApiError};
use serde::Deserialize;
use serde_json::json;

use super::{Schedule, ScheduleError, inner::NAME, limits};
use abide_component::{
    operating::{self, Answer, Verb, asked, body, json, no_operation, page, query},
    texts::sentence,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedTimers {
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedFailed {
    after: Option<i64>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedHistory {
    timer: Option<String>,
    before: Option<i64>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    timer: String,
}

impl Schedule {
    /// Serves operators through the object's component.
    pub(super) fn serve_operators(&self, ctx: &Ctx) -> Result<()> {
        let schedule = self.clone();
        operating::serve(ctx, NAME, move |request| schedule.clone().operate(request))
    }

    /// Answers an operator.
    pub(super) async fn operate(self, request: Request) -> Answer {
        let (verb, path) = asked(&request);
        match (verb, &*path) {
            (Verb::Read, "timers") => {
                let wanted: WantedTimers = query(&request)?;
                let timers = self.list(
                    wanted.after.as_deref(),
                    page(wanted.limit, limits::MAX_PAGE)?,
                )?;
                Ok(json(&json!({ "timers": timers })))
            }
            (Verb::Read, "failed") => {
                let wanted: WantedFailed = query(&request)?;
                let runs = self.failed(wanted.after, page(wanted.limit, limits::MAX_PAGE)?)?;
                Ok(json(&json!({ "runs": runs })))
            }
            (Verb::Read, "history") => {
                let wanted: WantedHistory = query(&request)?;
                let limit = page(wanted.limit, limits::MAX_PAGE)?;
                let entries = self.history(wanted.timer.as_deref(), wanted.before, limit)?;
                Ok(json(&json!({ "entries": entries })))
            }
            (Verb::Change, "run") => self.change_timer(request, Self::run_now).await,
            (Verb::Change, "retry") => self.change_timer(request, Self::retry).await,
            (Verb::Change, "discard") => self.change_timer(request, Self::discard).await,
            _ => Err(no_operation("A schedule")),
        }
    }

    async fn change_timer(
        &self,
        request: Request,
        change: impl Fn(&Self, &str) -> Result<(), ScheduleError>,
    ) -> Answer {
        let Which { timer } = body(request).await?;
        change(self, &timer).map_err(refused)?;
        Ok(json(&self.get(&timer)?))
    }
}

fn refused(error: ScheduleError) -> ApiError {
    let text = sentence(&error);
    match error {
        ScheduleError::NotFound { .. } => ApiError::not_found("no_such_timer", text),
        ScheduleError::Busy { .. } => ApiError::conflict("timer_busy", text),
        ScheduleError::NotFailed { .. } => ApiError::conflict("timer_not_failed", text),
        error => abide::Error::from(error).into(),
    }
}
