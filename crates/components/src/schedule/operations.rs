//! Operator requests to the schedule of any object, through the admin listener and the command.
//!
//! | Request below `/objects/{class}/{object}/components/schedule` | Answer |
//! |---|---|
//! | `GET /timers?after=&limit=` | 200 and `{"timers":[…]}`, by name, from the first after another |
//! | `GET /failed?after=&limit=` | 200 and `{"runs":[…]}`: what has failed, oldest first, from the first whose id is higher |
//! | `GET /history?timer=&before=&limit=` | 200 and `{"entries":[…]}`, newest first, from the first whose id is lower |
//! | `POST /run`, `/retry`, `/discard` with `{"timer":NAME}` | 200 and the timer, or `null` if it has ended and is forgotten; 404 `no_such_timer`; 409 `timer_busy`, `timer_not_failed` |

use abide::{Ctx, Request, Response, Result, server::ApiError};
use axum::{http::Method, response::IntoResponse};
use serde::Deserialize;
use serde_json::json;

use super::{Schedule, ScheduleError, inner::NAME, limits};
use abide_component::operating::{Answer, body, json, no_operation, page, query};

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
        ctx.serve_operations(NAME, move |request| schedule.clone().operate(request))
    }

    /// Answers an operator.
    async fn operate(self, request: Request) -> Result<Response> {
        let answer = self.answer(request).await;
        Ok(answer.unwrap_or_else(IntoResponse::into_response))
    }

    async fn answer(&self, request: Request) -> Answer {
        let path = request.uri().path().trim_matches('/').to_owned();
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match (is_read, &*path) {
            (true, "timers") => {
                let wanted: WantedTimers = query(&request)?;
                let timers = self.list(
                    wanted.after.as_deref(),
                    page(wanted.limit, limits::MAX_PAGE)?,
                )?;
                Ok(json(&json!({ "timers": timers })))
            }
            (true, "failed") => {
                let wanted: WantedFailed = query(&request)?;
                let runs = self.failed(wanted.after, page(wanted.limit, limits::MAX_PAGE)?)?;
                Ok(json(&json!({ "runs": runs })))
            }
            (true, "history") => {
                let wanted: WantedHistory = query(&request)?;
                let limit = page(wanted.limit, limits::MAX_PAGE)?;
                let entries = self.history(wanted.timer.as_deref(), wanted.before, limit)?;
                Ok(json(&json!({ "entries": entries })))
            }
            (false, "run") => self.change_timer(request, Self::run_now).await,
            (false, "retry") => self.change_timer(request, Self::retry).await,
            (false, "discard") => self.change_timer(request, Self::discard).await,
            _ => Err(no_operation("A schedule")),
        }
    }

    async fn change_timer(
        &self,
        request: Request,
        change: impl Fn(&Self, &str) -> Result<(), ScheduleError>,
    ) -> Answer {
        if *request.method() != Method::POST {
            return Err(no_operation("A schedule"));
        }
        let Which { timer } = body(request).await?;
        change(self, &timer).map_err(refused)?;
        Ok(json(&self.get(&timer)?))
    }
}

fn refused(error: ScheduleError) -> ApiError {
    match error {
        ScheduleError::NotFound { name } => {
            ApiError::not_found("no_such_timer", format!("There is no timer `{name}`."))
        }
        ScheduleError::Busy { name } => ApiError::conflict(
            "timer_busy",
            format!("The last occurrence of timer `{name}` has not finished."),
        ),
        ScheduleError::NotFailed { name } => ApiError::conflict(
            "timer_not_failed",
            format!(
                "Timer `{name}` has not failed: only a failed timer can be retried or discarded."
            ),
        ),
        error => abide::Error::from(error).into(),
    }
}
