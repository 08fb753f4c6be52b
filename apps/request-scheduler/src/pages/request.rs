//! One request with its runs.

use maud::{Markup, html};

use super::{actions, frame::frame, outcome, pill, time, word};
use crate::{Entry, Run, Runs, Shown};

/// A request.
pub(crate) fn request(shown: &Shown, runs: &Runs) -> Markup {
    let entry = &shown.entry;
    let body = html! {
        article {
            header.card.head {
                div.title {
                    h1 { (entry.method) " " (entry.url) }
                    p.soft.code { (entry.id) }
                }
                (pill(entry))
                div.buttons { (actions(entry, shown.failed_runs)) }
            }
            div.columns {
                section.card {
                    h2 { "Runs" }
                    @if runs.runs.is_empty() { p.soft { "It has not run yet." } }
                    ol.runs { @for run in &runs.runs { (item(run)) } }
                    @if let Some(next) = runs.next {
                        nav.older aria-label="Pages" {
                            a.plain href={ "/requests/" (entry.id) "?before=" (next) } { "Older runs" }
                        }
                    }
                }
                div {
                    section.card { h2 { "Schedule" } (facts(shown)) }
                    section.card { h2 { "Request" } (sends(shown)) }
                }
            }
        }
    };
    frame(&format!("{} {}", entry.method, entry.url), &body)
}

fn facts(shown: &Shown) -> Markup {
    let Entry {
        rhythm,
        next_at,
        last,
        created_at,
        ..
    } = &shown.entry;
    html! {
        dl {
            dt { "Runs" } dd { (rhythm.as_deref().unwrap_or("once")) }
            @if let Some(at) = next_at { dt { "Next run" } dd { (time(*at, "clock")) " (" (time(*at, "away")) ")" } }
            @if let Some(last) = last { dt { "Last outcome" } dd { (outcome(last)) } }
            @if shown.open_runs > 0 { dt { "Open runs" } dd { (shown.open_runs) } }
            @if shown.failed_runs > 0 { dt { "Failed runs" } dd { (shown.failed_runs) } }
            @if shown.skipped_runs > 0 { dt { "Skipped runs" } dd { (shown.skipped_runs) } }
            dt { "Retries" } dd { (retries(shown)) }
            dt { "Made" } dd { (time(*created_at, "clock")) }
            @if shown.updated_at != *created_at { dt { "Changed" } dd { (time(shown.updated_at, "clock")) } }
        }
    }
}

fn retries(shown: &Shown) -> String {
    match shown.definition.retry_after_seconds.as_deref() {
        None => "11, after 2 s, doubled up to 1 h".to_owned(),
        Some([]) => "none".to_owned(),
        Some(waits) => {
            let waits: Vec<_> = waits.iter().map(|wait| format!("{wait} s")).collect();
            format!("after {}", waits.join(", "))
        }
    }
}

fn sends(shown: &Shown) -> Markup {
    let init = &shown.definition.request_init;
    html! {
        dl {
            @for (name, value) in &init.headers { dt.code { (name) } dd.code { (value) } }
        }
        @match &init.body {
            Some(body) => pre.text { (body) },
            None => p.soft { "No body." },
        }
    }
}

fn item(run: &Run) -> Markup {
    let status = word(run.status, run.error.is_some());
    html! {
        li data-status=(run.status) {
            b { (status) }
            span.soft { (time(run.due_at, "clock")) }
            @if let Some(at) = run.next_attempt_at.filter(|_| run.attempts > 0) {
                p { "Attempt " (run.attempts + 1) " " (time(at, "away")) }
            }
            @if let Some(error) = &run.error { p.error { (error) } }
            details id={ "run-" (run.id) } {
                summary { (run.attempts) @if run.attempts == 1 { " attempt" } @else { " attempts" } }
                dl {
                    dt { "Idempotency-Key" } dd.code { (run.idempotency_key) }
                    @for event in &run.events {
                        dt { (event.event.replace('_', " ")) }
                        dd { (time(event.at, "clock")) @if let Some(detail) = &event.detail { br; span.soft { (detail) } } }
                    }
                }
            }
        }
    }
}
