//! The list of requests.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{actions, frame::frame, outcome, pill, time};
use crate::{Entry, List, Phase, http::Wanted};

/// The requests, newest first.
pub(crate) fn list(list: &List, counts: &BTreeMap<String, i64>, wanted: &Wanted) -> Markup {
    let all: i64 = counts.values().sum();
    let count = |phase: Phase| counts.get(phase.as_str()).copied().unwrap_or_default();
    let body = html! {
        h1.hidden { "Scheduled requests" }
        nav.tabs aria-label="States" {
            (tab("All", "/requests", all, "all", wanted.state.is_none()))
            @for phase in Phase::ALL {
                (tab(phase.as_str(), &format!("/requests?state={phase}"), count(phase), phase.as_str(), wanted.state == Some(phase)))
            }
        }
        @if list.requests.is_empty() { (nothing(wanted)) } @else { (table(&list.requests)) }
        @if let Some(next) = &list.next {
            nav.older aria-label="Pages" { a.plain href=(older(next, wanted.state)) { "Older requests" } }
        }
    };
    frame("Requests", &body)
}

fn tab(label: &str, href: &str, count: i64, name: &str, is_current: bool) -> Markup {
    let current = is_current.then_some("page");
    html! {
        a.card href=(href) data-state=(name) aria-current=[current] { b { (count) } span { (label) } }
    }
}

fn older(next: &str, state: Option<Phase>) -> String {
    match state {
        Some(state) => format!("/requests?state={state}&before={next}"),
        None => format!("/requests?before={next}"),
    }
}

fn nothing(wanted: &Wanted) -> Markup {
    html! {
        div.card.empty {
            @if wanted.state.is_none() && wanted.is_first() {
                p { b { "Nothing is scheduled." } }
                p.soft { "Requests that clients post to this server appear here." }
            } @else {
                p { b { "There are no such requests." } }
            }
        }
    }
}

fn table(entries: &[Entry]) -> Markup {
    html! {
        table.card.list {
            thead {
                tr { th { "Request" } th { "State" } th { "Next run" } th { "Last outcome" } th { span.hidden { "Actions" } } }
            }
            tbody { @for entry in entries { (row(entry)) } }
        }
    }
}

fn row(entry: &Entry) -> Markup {
    html! {
        tr data-id=(entry.id) {
            td.what {
                a href={ "/requests/" (entry.id) } { b { (entry.method) } " " (entry.url) }
                span.soft.code { (entry.id) }
            }
            td.state { (pill(entry)) }
            td.next {
                @if let Some(at) = entry.next_at { span { (time(at, "away")) } }
                @if let Some(rhythm) = &entry.rhythm { span.soft { (rhythm) } }
            }
            td.last { @if let Some(last) = &entry.last { (outcome(last)) } @else { span.soft { "not run yet" } } }
            td.actions { (actions(entry, 0)) }
        }
    }
}
