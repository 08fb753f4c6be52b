//! HTML fragments that are pushed to pages.

use abide::outbox::{
    Destination, FanOutStatus, Outbox, Record, Status,
    live::{HEAD, Render},
};
use abide::{Env, Result};
use maud::{Markup, html};

use super::{
    frame::Tab,
    row::{row, time},
};
use crate::{Lists, Overview, Progress, request::PAGE};

/// The rendering of mails, for [`Live`](abide::outbox::live::Live).
pub(crate) struct Looks {
    lists: Lists,
    env: Env,
}

impl Looks {
    pub(crate) fn new(lists: Lists, env: Env) -> Self {
        Self { lists, env }
    }
}

impl Render for Looks {
    fn row(&self, record: &Record) -> String {
        row(record).into_string()
    }

    fn head(&self, outbox: &Outbox) -> Result<String> {
        Ok(head(&Overview::of(outbox, &self.lists, &self.env)?).into_string())
    }

    fn rows(&self) -> usize {
        PAGE
    }
}

/// Counters, failing destinations, lists.
pub(super) fn head(overview: &Overview) -> Markup {
    let counts = &overview.counts;
    let all = counts.queued
        + counts.sending
        + counts.sent
        + counts.failed
        + counts.canceled
        + counts.discarded;
    let tabs = [
        (Tab::All, "All", all),
        (Tab::Status(Status::Queued), "Queued", counts.queued),
        (Tab::Status(Status::Sending), "Sending", counts.sending),
        (Tab::Status(Status::Sent), "Sent", counts.sent),
        (Tab::Status(Status::Failed), "Failed", counts.failed),
    ];
    html! {
        div id=(HEAD) {
            nav.tabs aria-label="Mails by status" {
                @for (tab, name, count) in tabs {
                    a.card href=(tab.href()) data-tab=(tab.name()) data-none[count == 0] {
                        b { (grouped(count)) } span { (name) }
                    }
                }
            }
            @for destination in &overview.destinations { (trouble(destination)) }
            @for list in &overview.lists { (progress(list)) }
        }
    }
}

fn trouble(destination: &Destination) -> Markup {
    html! {
        @if let Some(until) = destination.paused_until {
            p.card.trouble {
                // The time is excluded: it counts down, and screen readers would read out each second.
                b role="status" {
                    (destination.destination)
                    @if destination.opened > 0 { " keeps failing. " } @else { " asks for patience. " }
                }
                "Nothing is sent there; the next try is " (time(until, "until")) "."
                @if let Some(error) = &destination.last_error { span.error { (error) } }
            }
        }
    }
}

fn progress(list: &Progress) -> Markup {
    html! {
        @if matches!(list.status, FanOutStatus::Running | FanOutStatus::Failed) {
            div.card.list {
                div { b { (list.subject) } span.soft { (grouped(list.made)) " of " (grouped(list.total)) " mails made" } }
                progress max=(list.total) value=(list.made) aria-label={ "Mails made of " (list.subject) } {}
                @if let Some(error) = &list.error { span.error { (error) } }
                form method="post" action={ "/lists/" (list.id) "/cancel" } {
                    @if list.status == FanOutStatus::Running {
                        button.plain.bad { "Stop" }
                    } @else {
                        button.plain data-turbo-confirm="Forget who has not got a mail yet?" { "Dismiss" }
                    }
                }
            }
        }
    }
}

/// A number with a thin space between thousands.
fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(12_345), "12\u{202f}345");
        assert_eq!(grouped(1_000_000), "1\u{202f}000\u{202f}000");
    }
}
