//! The HTML pages.

mod frame;
mod looks;
mod row;

pub(crate) use looks::Looks;

use abide::http::StatusCode;
use abide::outbox::{
    Change, Page, Record, Status,
    live::{DEAD_LETTERS, NEWEST, newest_of},
};
use maud::{Markup, html};

use self::{
    frame::{Tab, Watch, frame},
    looks::head,
    row::{pill, row, time},
};
use crate::{Draft, Mail, Overview, request::Wanted};

/// The mails, newest first.
pub(crate) fn queue(overview: &Overview, list: &Page, wanted: &Wanted) -> Markup {
    let tab = wanted.status.map_or(Tab::All, Tab::Status);
    // New rows are inserted only on first pages.
    let newest = wanted.status.map_or_else(|| NEWEST.to_owned(), newest_of);
    let newest = wanted.before.is_none().then_some(newest);
    let body = html! {
        h1.hidden { "Mails" }
        (head(overview))
        // The style sheet shows it while the table is empty.
        (nothing(tab))
        (table(&list.records, newest.as_deref(), wanted.status))
        (older(tab, list.next))
    };
    frame("Queue", tab, Watch::All, &body)
}

/// The failed mails.
pub(crate) fn failed(overview: &Overview, list: &Page, wanted: &Wanted) -> Markup {
    let newest = wanted.before.is_none().then_some(DEAD_LETTERS);
    let body = html! {
        h1.hidden { "Failed mails" }
        (head(overview))
        div.bar {
            p.soft { "These mails were given up. Each stays here until you redrive or discard it." }
            form method="post" action="/failed/redrive" { button.do { "Redrive all" } }
            form method="post" action="/failed/discard" data-turbo-confirm="Discard all failed mails for good?" {
                button.plain.bad { "Discard all" }
            }
        }
        (nothing(Tab::Status(Status::Failed)))
        (table(&list.records, newest, None))
        (older(Tab::Status(Status::Failed), list.next))
    };
    frame("Failed", Tab::Status(Status::Failed), Watch::All, &body)
}

/// A table of all mails, or of those with a status.
fn table(records: &[Record], id: Option<&str>, only: Option<Status>) -> Markup {
    html! {
        table.card.mails {
            thead {
                tr { th { "Mail" } th { "Status" } th { "Progress" } th.when { "Enqueued" } th { span.hidden { "Actions" } } }
            }
            tbody id=[id] data-only=[only] { @for record in records { (row(record)) } }
        }
    }
}

fn nothing(tab: Tab) -> Markup {
    html! {
        div.card.empty {
            (frame::envelope())
            @match tab {
                Tab::Status(Status::Failed) => p { b { "Nothing has failed." } br; span.soft { "Mails that are given up appear here." } },
                Tab::All => p { b { "No mails yet." } br; span.soft { "Mails that you compose appear here and are sent automatically." } },
                _ => p { b { "No such mails." } },
            }
            @if matches!(tab, Tab::All) { a.do href="/compose" { "Compose a mail" } }
        }
    }
}

fn older(tab: Tab, next: Option<i64>) -> Markup {
    html! {
        @if let Some(next) = next {
            nav.older aria-label="Pages" { a.plain href=(tab.before(next)) { "Older mails" } }
        }
    }
}

/// The form for a new mail.
pub(crate) fn compose(draft: &Draft, wrong: Option<&str>) -> Markup {
    let body = html! {
        form.card.letter method="post" action="/mails" {
            h1 { "Compose" }
            (complaint(wrong))
            (fields(draft, "One address, or a list: separated by line breaks or commas. Each gets their own mail."))
            div.buttons { button.do { "Enqueue" } a.plain href="/" { "Cancel" } }
        }
    };
    frame("Compose", Tab::None, Watch::Nothing, &body)
}

/// The form for a failed mail.
pub(crate) fn edit(id: i64, draft: &Draft, wrong: Option<&str>) -> Markup {
    let body = html! {
        form.card.letter method="post" action={ "/mails/" (id) "/edit" } {
            h1 { "Edit mail " (id) }
            (complaint(wrong))
            (fields(draft, "The mail keeps its history; redrive it when it is right."))
            div.buttons { button.do { "Save" } a.plain href={ "/mails/" (id) } { "Cancel" } }
        }
    };
    frame("Edit", Tab::None, Watch::Nothing, &body)
}

fn complaint(wrong: Option<&str>) -> Markup {
    html! { @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } } }
}

fn fields(draft: &Draft, hint: &str) -> Markup {
    let to = draft.to.join("\n");
    let rows = draft.to.len().clamp(2, 8);
    html! {
        label { "To" textarea name="to" rows=(rows) required autofocus spellcheck="false" { (to) } small.soft { (hint) } }
        label { "Subject" input name="subject" value=(draft.subject) maxlength="200" required; }
        label { "Text" textarea name="text" rows="10" required { (draft.text) } }
    }
}

/// One mail with its history.
pub(crate) fn mail(mail: &Mail) -> Markup {
    let Mail {
        record,
        email,
        history,
    } = mail;
    let body = html! {
        article.mail {
            header.card {
                div.title {
                    h1 { (email.subject) }
                    p.soft { "To " @for (place, to) in email.to.iter().enumerate() { @if place > 0 { ", " } (to) } }
                }
                (pill(record))
                div.buttons { (actions(record)) }
            }
            @if let Some(error) = &record.last_error {
                p.card.wrong { b { @if record.status == Status::Failed { "Given up. " } @else { "Last problem. " } } (error) }
            }
            div.columns {
                section.card {
                    h2 { "History" }
                    ol.history { @for change in history.iter().rev() { (event(change)) } }
                }
                div {
                    section.card {
                        h2 { "Delivery" }
                        (facts(record))
                    }
                    section.card {
                        h2 { "Text" }
                        pre.text { (email.text.as_deref().unwrap_or_default()) }
                    }
                }
            }
        }
    };
    frame(&email.subject, Tab::None, Watch::Mail(record.id), &body)
}

fn actions(record: &Record) -> Markup {
    let action = |verb: &str| format!("/mails/{}/{verb}", record.id);
    html! {
        @match record.status {
            Status::Failed => {
                form method="post" action=(action("redrive")) { button.do { "Redrive" } }
                a.plain href=(action("edit")) { "Edit" }
                form method="post" action=(action("drop")) data-turbo-confirm="Discard this mail for good?" {
                    button.plain.bad { "Discard" }
                }
            }
            Status::Queued => form method="post" action=(action("drop")) { button.plain.bad { "Cancel" } },
            _ => {}
        }
    }
}

fn facts(record: &Record) -> Markup {
    html! {
        dl {
            dt { "Through" } dd { (record.destination) }
            dt { "Attempts" } dd { (record.attempts) }
            @if let Some(at) = record.next_at {
                dt { @if record.operation.is_some() { "Next question" } @else { "Next attempt" } } dd { (time(at, "until")) }
            }
            @if let Some(operation) = &record.operation { dt { "Operation" } dd.code { (operation) } }
            @if record.polls > 0 { dt { "Asked" } dd { (record.polls) @if record.polls == 1 { " time" } @else { " times" } } }
            @if record.unknown {
                dt { "Unknown" } dd { "An answer was lost, so the mail may have gone out. It is repeated under the same key." }
            }
            dt { "Key" } dd.code { (record.idempotency_key) }
            dt { "Enqueued" } dd { (time(record.created_at, "full")) }
            @if let Some(at) = record.finished_at { dt { "Ended" } dd { (time(at, "full")) } }
            @if let Some(list) = record.fan_out { dt { "List" } dd { (list) } }
        }
    }
}

fn event(change: &Change) -> Markup {
    html! {
        li data-event=(change.event) {
            b { (change.event.replace('_', " ")) }
            (time(change.at, "full"))
            @if let Some(detail) = &change.detail { p { (detail) } }
        }
    }
}

/// An error page.
pub(crate) fn error(status: StatusCode, text: &str) -> Markup {
    let body = html! {
        div.card.empty {
            (frame::envelope())
            h1 { (status.canonical_reason().unwrap_or("Error")) }
            p.soft { (text) }
            a.do href="/" { "To the queue" }
        }
    };
    frame("Error", Tab::None, Watch::Nothing, &body)
}
