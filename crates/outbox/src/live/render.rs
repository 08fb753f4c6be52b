//! Rendering of messages on a page.

use abide::Result;
use jiff::{Timestamp, Unit};
use maud::{Markup, PreEscaped, html};

use crate::{Counts, Destination, MessageFilter, Outbox, Record, Status};

/// Renders an outbox for pages. The HTML must already be escaped, as template libraries do it.
pub trait Render: 'static {
    /// The row of a message: an element with the id [`row_id`].
    fn row(&self, record: &Record) -> String;

    /// The head above the rows: an element with the id [`HEAD`].
    fn head(&self, outbox: &Outbox) -> Result<String>;

    /// Rows that a page shows at once: further rows of a list are removed.
    fn rows(&self) -> usize {
        50
    }
}

/// The id of the element that [`Render::head`] makes.
pub const HEAD: &str = "outbox-head";

/// The id of the element whose children are rows, on a page with the newest messages: new ones come first there.
pub const NEWEST: &str = "outbox-newest";

/// The id of the element whose children are rows, on a page with the dead letters: what fails comes first there.
pub const DEAD_LETTERS: &str = "outbox-dead-letters";

/// An attribute of an element whose children are rows, on a page with the messages of one status, which is its value: a row
/// of another status is removed from there.
pub const ONLY: &str = "data-only";

/// The id of such an element with the newest messages of its status: messages that enter that status come first there.
pub fn newest_of(status: Status) -> String {
    format!("outbox-{status}")
}

/// The id of a message's row.
pub fn row_id(id: i64) -> String {
    format!("message-{id}")
}

/// Rows of a plain table: id, kind, summary, status, attempts, next attempt, last error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Table;

impl Render for Table {
    fn row(&self, record: &Record) -> String {
        row(record).into_string()
    }

    fn head(&self, outbox: &Outbox) -> Result<String> {
        Ok(head(&outbox.counts()?, &outbox.destinations(5)?).into_string())
    }
}

impl Table {
    /// A complete page that updates itself: counts, and the newest messages. `live` is the address that
    /// [`Live::accept`](super::Live::accept) answers, `assets` the folder with [`TURBO`](super::TURBO) and
    /// [`LIVE`](super::LIVE).
    pub fn page(self, title: &str, outbox: &Outbox, live: &str, assets: &str) -> Result<String> {
        let newest = outbox.list(&MessageFilter {
            limit: self.rows(),
            ..MessageFilter::default()
        })?;
        let head = self.head(outbox)?;
        Ok(page(title, &head, &newest.records, live, assets))
    }

    /// The page of an outbox that does not exist yet.
    pub(crate) fn empty_page(title: &str, live: &str, assets: &str) -> String {
        let head = head(&Counts::default(), &[]).into_string();
        page(title, &head, &[], live, assets)
    }
}

fn page(title: &str, head: &str, newest: &[Record], live: &str, assets: &str) -> String {
    let page = html! {
        (PreEscaped("<!doctype html>"))
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="turbo-refresh-method" content="morph";
                meta name="turbo-refresh-scroll" content="preserve";
                title { (title) }
                style { (PreEscaped(STYLE)) }
                script defer src={ (assets) "/" (super::TURBO.name) } {}
                script defer src={ (assets) "/" (super::LIVE.name) } {}
            }
            body {
                abide-live id="live" data-turbo-permanent src=(live) {}
                main {
                    h1 { (title) }
                    (PreEscaped(head))
                    div.wide tabindex="0" role="region" aria-label="Messages" {
                        table {
                            thead { tr { th { "Id" } th { "Kind" } th { "Message" } th { "Status" } th { "Attempts" }
                                th { "Next" } th { "Last error" } } }
                            tbody id=(NEWEST) {
                                @for record in newest { (row(record)) }
                            }
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

const STYLE: &str = "\
body{font:1rem/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}\
.wide{overflow-x:auto}\
table{border-collapse:collapse;width:100%;font-size:.9rem}\
td,th{text-align:left;padding:.4rem .6rem;border-bottom:1px solid #8884;vertical-align:top}\
td{overflow-wrap:anywhere}td:nth-child(4){white-space:nowrap}td:first-child{font-variant-numeric:tabular-nums}\
#outbox-head{display:flex;gap:1.5rem;flex-wrap:wrap;margin:1rem 0}\
#outbox-head b{font-size:1.3rem;display:block;font-variant-numeric:tabular-nums}";

fn row(record: &Record) -> Markup {
    html! {
        tr id=(row_id(record.id)) data-status=(record.status) {
            td { (record.id) }
            td { (record.kind) }
            td { (record.summary) @if !record.summary.is_empty() { br; } small { (record.destination) } }
            td { (word(record)) }
            td { (record.attempts) @if record.polls > 0 { ", " (record.polls) " polls" } }
            td { @if let Some(at) = record.next_at { (time(at)) } }
            td { @if let Some(error) = &record.last_error { (error) } }
        }
    }
}

fn head(counts: &Counts, destinations: &[Destination]) -> Markup {
    html! {
        div id=(HEAD) {
            @for (count, name) in [
                (counts.queued, Status::Queued), (counts.sending, Status::Sending), (counts.sent, Status::Sent),
                (counts.failed, Status::Failed),
            ] {
                span { b { (count) } (name) }
            }
            @for destination in destinations {
                @if let Some(until) = destination.paused_until {
                    span { b { (destination.destination) } "paused until " (time(until)) }
                }
            }
        }
    }
}

fn word(record: &Record) -> &'static str {
    match record.status {
        Status::Queued if record.blocked => "queued, blocked",
        Status::Queued if record.unknown => "queued, result unknown",
        Status::Sending if record.operation.is_some() => "accepted, in progress",
        other => other.as_str(),
    }
}

fn time(unix_millis: i64) -> Markup {
    let at = utc(unix_millis);
    html! { time datetime=(at) { (at) } }
}

/// A time in RFC 3339 format, in UTC and whole seconds, for `<time datetime="…">`.
pub fn utc(unix_millis: i64) -> String {
    Timestamp::from_millisecond(unix_millis)
        .ok()
        .and_then(|at| at.round(Unit::Second).ok())
        .map_or_else(|| unix_millis.to_string(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(1_763_748_185_499), "2025-11-21T18:03:05Z");
        assert_eq!(utc(i64::MAX), i64::MAX.to_string());
    }
}
