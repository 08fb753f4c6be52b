//! The pages.

mod frame;
mod list;
mod request;

use abide::http::StatusCode;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::{Entry, Outcome};
use abide::outbox::Status;

pub(crate) use list::list;
pub(crate) use request::request;

/// What went wrong.
pub(crate) fn error(status: StatusCode, text: &str) -> Markup {
    let body = html! {
        div.card.empty {
            h1 { (status.canonical_reason().unwrap_or("Error")) }
            p.soft { (text) }
            a.do href="/requests" { "To the list" }
        }
    };
    frame::frame("Error", &body)
}

/// A time; the script shows it in the reader's own zone.
fn time(at: i64, form: &str) -> Markup {
    let at = Timestamp::from_millisecond(at).unwrap_or_default();
    html! { time datetime=(at) data-form=(form) { (at) } }
}

/// Where a request is.
fn pill(entry: &Entry) -> Markup {
    html! { span.pill data-state=(entry.state) { (entry.state) } }
}

/// How a run went.
fn outcome(last: &Outcome) -> Markup {
    html! {
        span.outcome data-status=(last.status) { (word(last.status, last.error.is_some())) }
        " " (time(last.at, "away"))
        @if let Some(error) = &last.error { span.error title=(error) { (error) } }
    }
}

/// The status of a run, in a word for people.
fn word(status: Status, has_failed: bool) -> &'static str {
    match status {
        Status::Sent => "delivered",
        Status::Queued if has_failed => "retrying",
        other => other.as_str(),
    }
}

/// The buttons of a request.
fn actions(entry: &Entry, failed_runs: i64) -> Markup {
    let action = |verb: &str| format!("/requests/{}/{verb}", entry.id);
    let question = format!("Cancel {} and forget its runs?", entry.id);
    html! {
        @match entry.state {
            crate::Phase::Scheduled => form method="post" action=(action("pause")) { button.plain { "Pause" } },
            crate::Phase::Paused => form method="post" action=(action("resume")) { button.do { "Resume" } },
            crate::Phase::Running | crate::Phase::Failed => {}
        }
        @if failed_runs > 0 || entry.state == crate::Phase::Failed {
            form method="post" action=(action("retry")) { button.do { "Retry" } }
        }
        form method="post" action=(action("cancel")) data-confirm=(question) { button.plain.bad { "Cancel" } }
    }
}
