//! The pages: a session's gallery, and errors. They need no script.

use axum::http::StatusCode;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{
    List, Picture, Shot, ShotState, Status, assets::STYLE, browser::pool::Activity, limits,
    request::Format,
};

/// A session with its screenshots, newest first.
pub(crate) fn gallery(session: &str, status: &Status, list: &List, is_first: bool) -> Markup {
    let body = html! {
        (controls(session, status))
        @if list.screenshots.is_empty() && is_first {
            section.card.empty {
                (camera())
                h2 { "No screenshots yet" }
                p.soft { "Enter an address above. The pictures appear here, in five sizes." }
            }
        }
        @for shot in &list.screenshots { (card(session, shot)) }
        nav.older {
            @if !is_first { a.plain href={ "/sessions/" (session) } { "Newest" } }
            @if let Some(next) = list.next {
                a.plain href={ "/sessions/" (session) "?before=" (next) } { "Older" }
            }
        }
    };
    frame(session, session, &body)
}

/// What went wrong.
pub(crate) fn error(status: StatusCode, message: &str, session: &str) -> Markup {
    let body = html! {
        section.card.empty {
            h2 { (status.canonical_reason().unwrap_or("Error")) }
            p.message { (message) }
            a.do href={ "/sessions/" (session) } { "Back to the session" }
        }
    };
    frame("Error", session, &body)
}

fn frame(title: &str, session: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Browser sessions" }
                link rel="icon" href=(ICON);
                link rel="stylesheet" href={ "/assets/" (STYLE.name) };
            }
            body {
                header.top {
                    h1 { a.brand href="/" { (camera()) "Browser sessions" } }
                    form.session action="/sessions" {
                        label for="session" { "Session" }
                        input #session name="session" value=(session) required maxlength=(limits::MAX_SESSION)
                            pattern="[A-Za-z0-9][A-Za-z0-9_\\-]*" autocomplete="off" spellcheck="false";
                    }
                }
                main { (body) }
            }
        }
    }
}

fn controls(session: &str, status: &Status) -> Markup {
    html! {
        section.card.controls {
            form.take method="post" action={ "/sessions/" (session) "/take" } {
                label.hidden for="url" { "Address" }
                input #url name="url" required maxlength=(limits::MAX_URL_BYTES) placeholder="https://example.com"
                    inputmode="url" autocomplete="off" autocapitalize="none" spellcheck="false";
                label.hidden for="format" { "What to take" }
                select #format name="format" {
                    option value="jpeg" { "Five sizes" }
                    option value="pdf" { "PDF" }
                }
                button.do { "Take" }
            }
            div.browser {
                (pill(status))
                @if status.browser != Activity::Closed {
                    form method="post" action={ "/sessions/" (session) "/keep-open" } { button.plain { "Keep open" } }
                    form method="post" action={ "/sessions/" (session) "/close" } { button.plain { "Close" } }
                }
            }
        }
    }
}

fn pill(status: &Status) -> Markup {
    let (state, text) = match status.browser {
        Activity::Closed => ("closed", "Browser closed".to_owned()),
        Activity::Busy => ("busy", "Browser at work".to_owned()),
        Activity::Idle => {
            let left = status
                .closes_after_seconds
                .saturating_sub(status.idle_seconds);
            ("idle", format!("Browser open, closes in about {left} s"))
        }
    };
    html! { span.pill data-state=(state) { (text) } }
}

fn card(session: &str, shot: &Shot) -> Markup {
    let about = shot.about.as_ref();
    let title = about
        .map(|about| about.title.as_str())
        .filter(|title| !title.trim().is_empty());
    html! {
        article.card.shot data-id=(shot.id) data-state=(state(shot.state)) {
            header {
                div.what {
                    h2 { (title.unwrap_or(&shot.url)) }
                    a.soft href=(shot.url) rel="noreferrer nofollow" { (shot.url) }
                }
                form method="post" action={ "/sessions/" (session) "/remove" } {
                    button.plain.quiet name="id" value=(shot.id) aria-label={ "Remove the screenshot of " (shot.url) } { "Remove" }
                }
            }
            @if let Some(error) = &shot.error { p.message { (error) } }
            @if shot.state == ShotState::Taking { p.soft { "Being taken. Reload the page in a moment." } }
            (pictures(&shot.pictures))
            @if let Some(about) = about { (texts(&about.texts)) }
            footer.soft {
                time datetime=(time(shot.taken_at, "%Y-%m-%dT%H:%M:%SZ")) { (time(shot.taken_at, "%-d %B %Y, %H:%M:%S UTC")) }
                @if let Some(about) = about {
                    @if let Some(status) = about.status { span { "HTTP " (status) } }
                    span { (seconds(about.took_millis)) @if about.cold_browser { " with a new browser" } }
                    span { (kib(about.loaded_bytes)) " loaded" }
                    @if !about.blocked.is_empty() {
                        span.blocked title=(about.blocked.join(", ")) { (about.blocked.len()) " blocked" }
                    }
                }
                code { (shot.key) }
            }
        }
    }
}

/// Desktops beside each other, and phones.
fn pictures(pictures: &[Picture]) -> Markup {
    html! {
        @if !pictures.is_empty() {
            div.pictures {
                @for picture in pictures {
                    @if Format::of_file(&picture.key) == Some(Format::Pdf) { (document(picture)) } @else { (figure(picture)) }
                }
            }
        }
    }
}

fn figure(picture: &Picture) -> Markup {
    let is_phone = picture.size.width < limits::PHONE_WIDTH;
    html! {
        figure class=(if is_phone { "phone" } else { "desktop" }) {
            a href={ "/pictures/" (picture.key) } {
                img src={ "/pictures/" (picture.key) } alt={ "The page at " (picture.size) }
                    width=(picture.size.width) height=(picture.size.height) loading="lazy" decoding="async";
            }
            figcaption { (picture.size.width) " × " (picture.size.height) span.soft { (kib(picture.bytes as u64)) } }
        }
    }
}

/// A PDF, to be downloaded.
fn document(document: &Picture) -> Markup {
    html! {
        a.document href={ "/pictures/" (document.key) } { strong { "PDF" } span.soft { (kib(document.bytes as u64)) } }
    }
}

/// What steps have read.
fn texts(texts: &[String]) -> Markup {
    html! {
        @if !texts.is_empty() {
            ol.texts { @for text in texts { li { (text) } } }
        }
    }
}

fn state(state: ShotState) -> &'static str {
    match state {
        ShotState::Taking => "taking",
        ShotState::Done => "done",
        ShotState::Failed => "failed",
    }
}

fn time(millis: i64, format: &str) -> String {
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    time.strftime(format).to_string()
}

fn seconds(millis: u64) -> String {
    format!("{:.1} s", millis as f64 / 1_000.0)
}

fn kib(bytes: u64) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}

/// The mark of the program.
fn camera() -> Markup {
    html! {
        svg viewBox="0 0 32 32" aria-hidden="true" {
            rect width="32" height="32" rx="8" {}
            path d="M8 12h3.5l1.5-2.5h6L20.5 12H24v11H8z" {}
            circle cx="16" cy="17" r="3.4" {}
        }
    }
}

const ICON: PreEscaped<&str> = PreEscaped(
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='8' \
     fill='%230f766e'/%3E%3Cg fill='none' stroke='white' stroke-width='2'%3E%3Cpath d='M8 12h3.5l1.5-2.5h6L20.5 12H24v11H8z'/%3E\
     %3Ccircle cx='16' cy='17' r='3.4'/%3E%3C/g%3E%3C/svg%3E",
);
