//! Operations that a receiver has accepted: their addresses and states.
//!
//! The protocol is that of Azure's long-running operations
//! (<https://github.com/microsoft/api-guidelines/blob/vNext/azure/Guidelines.md#long-running-operations--jobs>): a
//! response with `Operation-Location`, and at that address a JSON object with a `status`.

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

/// The state of an operation, as its receiver reports it.
#[derive(Deserialize)]
struct OperationReport {
    status: Option<String>,
    error: Option<Value>,
}

/// The absolute URL of the operation that a response to `url` names, if any, or why it cannot be polled.
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
                "`{header}` is not a URL of at most {} bytes: {}",
                limits::MAX_OPERATION_BYTES,
                without_query(&location)
            )
        })
        .and_then(|found| target(found.as_str()));
    Some(usable)
}

/// The operation that a response has begun, if any. A success begins the operation that it names, and so does a
/// response that may come from a part of the receiver that knows nothing of the others (408, 429, 5xx); the latter is
/// retried if the operation cannot be polled.
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

/// Refuses an operation at another origin than its request: the credentials that a poll sends may be secret.
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

/// The state of an operation from a response. `without_status` is the meaning of a success without a status, or of a
/// redirect to the result.
pub(super) fn told(answer: &Answer, without_status: Option<Polled>) -> Result<Polled, Failure> {
    if answer.status == StatusCode::NOT_FOUND {
        // Not all parts of the receiver may know of it yet.
        return Err(Failure::refused(format!(
            "the operation is unknown to the receiver: {}",
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
    let told: Option<OperationReport> = serde_json::from_slice(&answer.body).ok();
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
        End::Longer => "is too long",
        End::Broken => "broke off",
    };
    format!("the response {what}: {}", answer.quote())
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
