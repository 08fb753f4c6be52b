//! Operations that a receiver has accepted and works on: where they are asked about, and what it says.
//!
//! The form is that of Azure's long-running operations
//! (<https://github.com/microsoft/api-guidelines/blob/vNext/azure/Guidelines.md#long-running-operations--jobs>): an answer
//! with `Operation-Location`, and there a JSON object with a `status`.

use abide::http::{HeaderName, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{
    address::{target, without_query},
    answer::{Answer, End},
};
use crate::{Failure, Polled, Submitted, limits};

const OPERATION_LOCATION: HeaderName = HeaderName::from_static("operation-location");

/// What a receiver tells of an operation.
#[derive(Deserialize)]
struct Told {
    status: Option<String>,
    error: Option<Value>,
}

/// The operation that an answer to `url` names, if it does, as a whole URL; or why it cannot be asked about.
pub(super) fn named(answer: &Answer, url: &Url) -> Option<Result<Url, String>> {
    at(answer, url, &OPERATION_LOCATION)
}

/// The same for another header.
pub(super) fn at(answer: &Answer, url: &Url, header: &HeaderName) -> Option<Result<Url, String>> {
    let location = answer.headers.get(header)?;
    let found = location.to_str().ok().and_then(|text| url.join(text).ok());
    let usable = found
        .filter(|found| found.as_str().len() <= limits::MAX_OPERATION_BYTES)
        .ok_or_else(|| {
            let location = String::from_utf8_lossy(location.as_bytes());
            format!(
                "`{header}` is no URL of at most {} bytes: {}",
                limits::MAX_OPERATION_BYTES,
                without_query(&location)
            )
        })
        .and_then(|found| target(found.as_str()));
    Some(usable)
}

/// The operation that an answer has begun, if it has. A success has begun what it names, and so has an answer that may
/// come of a part of the receiver which knows nothing of the others (408, 429, 5xx); that is tried again if what it names
/// cannot be asked about.
pub(super) fn begun(
    answer: &Answer,
    named: Option<Result<Url, String>>,
) -> Result<Option<Url>, Failure> {
    if answer.status.is_success() {
        return named.transpose().map_err(|error| {
            Failure::permanent(format!("it was accepted, but {error}")).after_effect()
        });
    }
    let may_have = answer.status.is_server_error()
        || matches!(
            answer.status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
        );
    Ok(named.and_then(Result::ok).filter(|_| may_have))
}

/// A submission that was accepted.
pub(super) fn accepted(operation: &Url, answer: &Answer) -> Submitted {
    Submitted::Accepted {
        operation: operation.to_string(),
        after: answer.after,
    }
}

/// Refuses an operation that is asked about at another place than its request was sent to: what is sent along may be
/// secret.
pub(super) fn same_origin(operation: &Url, url: &Url) -> Result<(), String> {
    if operation.origin() == url.origin() {
        return Ok(());
    }
    Err(format!(
        "its operation is at {}, not at {}: nothing is sent there",
        operation.origin().ascii_serialization(),
        url.origin().ascii_serialization()
    ))
}

/// What an answer says of an operation. `without_status` is what a success means that has none, or a redirect to what came
/// of it.
pub(super) fn told(answer: &Answer, without_status: Option<Polled>) -> Result<Polled, Failure> {
    if answer.status == StatusCode::NOT_FOUND {
        // The receiver's own parts may not all know of it yet.
        return Err(Failure::refused(format!(
            "the operation is not known: {}",
            answer.quote()
        )));
    }
    if let (StatusCode::FOUND | StatusCode::SEE_OTHER, Some(ended)) =
        (answer.status, &without_status)
    {
        return Ok(ended.clone());
    }
    if !answer.status.is_success() {
        return Err(answer.failure());
    }
    let told: Option<Told> = serde_json::from_slice(&answer.body).ok();
    let Some((status, error)) = told.and_then(|told| Some((told.status?, told.error))) else {
        if answer.status == StatusCode::ACCEPTED {
            return Ok(running(answer));
        }
        return without_status
            .filter(|_| answer.end != End::Broken)
            .ok_or_else(|| Failure::refused(nothing_told(answer)));
    };
    Ok(match status.to_ascii_lowercase().as_str() {
        "succeeded" | "completed" => Polled::Done,
        "failed" | "canceled" | "cancelled" => Polled::Failed {
            error: reason(&status, error.as_ref()),
            retry: false,
        },
        _ => running(answer),
    })
}

fn running(answer: &Answer) -> Polled {
    Polled::Running {
        after: answer.after,
    }
}

fn nothing_told(answer: &Answer) -> String {
    let what = match answer.end {
        End::Whole => "has no `status`",
        End::Longer => "has no end",
        End::Broken => "broke off",
    };
    format!("the answer {what}: {}", answer.quote())
}

/// `Failed: DomainNotLinked: The specified sender domain has not been linked.`
fn reason(status: &str, error: Option<&Value>) -> String {
    let text = |name: &str| error.and_then(|error| error.get(name)?.as_str());
    let parts = [Some(status), text("code"), text("message")];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    match error {
        Some(error) if parts.len() == 1 && !error.is_null() => format!("{status}: {error}"),
        _ => parts.join(": "),
    }
}
