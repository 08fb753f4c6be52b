//! A mail in a table.

use abide::http::Uri;
use abide::outbox::{Record, Status, live::row_id};
use maud::{Markup, html};

/// A mail's row.
pub(super) fn row(record: &Record) -> Markup {
    let (to, subject) = recipient_and_subject(&record.summary);
    html! {
        tr id=(row_id(record.id)) data-status=(record.status) {
            td.what { a href={ "/mails/" (record.id) } { (subject) } span.soft { (to) } }
            td { (pill(record)) }
            td.progress { (progress(record)) }
            td.when { (time(record.created_at, "clock")) }
            td.actions {
                @if record.status == Status::Failed {
                    (button(record.id, "redrive", "Redrive", "do", None))
                    a.plain href={ "/mails/" (record.id) "/edit" } { "Edit" }
                    (button(record.id, "drop", "Discard", "plain bad", Some("Discard this mail for good?")))
                }
            }
        }
    }
}

fn button(id: i64, verb: &str, label: &str, class: &str, confirm: Option<&str>) -> Markup {
    html! {
        form method="post" action={ "/mails/" (id) "/" (verb) } data-turbo-confirm=[confirm] {
            input type="hidden" name="back" value="failed";
            button class=(class) { (label) }
        }
    }
}

/// A mail's handler writes its summary as `ADDRESS: SUBJECT`, where the subject may be truncated.
fn recipient_and_subject(summary: &str) -> (&str, &str) {
    summary.split_once(": ").unwrap_or(("", summary))
}

/// A mail's status.
pub(super) fn pill(record: &Record) -> Markup {
    let word = match record.status {
        Status::Queued if record.blocked => "waiting",
        Status::Queued if record.unknown => "unknown",
        Status::Queued if record.attempts > 0 => "retrying",
        Status::Sending if record.operation.is_some() => "accepted",
        other => other.as_str(),
    };
    html! { span.pill data-status=(record.status) { (word) } }
}

/// The progress of a mail that is being sent.
fn progress(record: &Record) -> Markup {
    let error = html! {
        @if let Some(error) = &record.last_error { span.error title=(error) { (error) } }
    };
    html! {
        @match record.status {
            Status::Queued => {
                @if record.attempts > 0 {
                    span { "Attempt " (record.attempts + 1) " " @if let Some(at) = record.next_at { (time(at, "until")) } }
                } @else if let Some(at) = record.not_before {
                    span { "Not before " (time(at, "clock")) }
                }
                (error)
            }
            Status::Sending => {
                @if let Some(operation) = &record.operation {
                    span { "Operation " code title=(operation) { (short(operation)) } }
                    span.soft {
                        @match record.polls { 0 => "not asked yet", 1 => "asked once", times => { "asked " (times) " times" } }
                        @if let Some(at) = record.next_at { ", again " (time(at, "until")) }
                    }
                } @else {
                    span { "Attempt " (record.attempts) }
                }
            }
            Status::Sent => {
                span {
                    @if let Some(at) = record.finished_at { (time(at, "clock")) }
                    @if record.attempts > 1 { ", attempt " (record.attempts) }
                }
            }
            Status::Failed => {
                (error)
                span.soft { (record.attempts) @if record.attempts == 1 { " attempt" } @else { " attempts" } }
            }
            Status::Canceled | Status::Discarded => {}
        }
    }
}

/// The last part of an operation's address, truncated.
fn short(operation: &str) -> String {
    let uri: Option<Uri> = operation.parse().ok();
    let path = uri.as_ref().map_or(operation, Uri::path);
    let last = path.rsplit('/').next().unwrap_or_default();
    last.chars().take(8).collect()
}

/// A time, in UTC until the page's script converts it to the reader's time zone.
pub(super) fn time(unix_millis: i64, form: &str) -> Markup {
    let at = abide::outbox::live::utc(unix_millis);
    html! { time datetime=(at) data-form=(form) { (at) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_shown_by_the_beginning_of_its_id() {
        let url = "http://127.0.0.1:1/emails/operations/0a1b2c3d-4e5f?api-version=2023-03-31";
        assert_eq!(short(url), "0a1b2c3d");
        assert_eq!(short("not an address"), "not an a");
    }

    #[test]
    fn what_a_mail_says_is_escaped() {
        let (to, subject) = recipient_and_subject("ada@example.com: <b>to: all of you</b>");
        assert_eq!((to, subject), ("ada@example.com", "<b>to: all of you</b>"));
        assert_eq!(
            html! { (subject) }.into_string(),
            "&lt;b&gt;to: all of you&lt;/b&gt;"
        );
    }
}
