//! The frame of all pages.

use abide::outbox::{
    Status,
    live::{LIVE, TURBO},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::assets::{SCRIPT, STYLE};

/// The list that a page shows, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    None,
    All,
    Status(Status),
}

impl Tab {
    /// Its name, by which the style sheet marks it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::All => "all",
            Self::Status(status) => status.as_str(),
        }
    }

    /// Its page.
    pub(super) fn href(self) -> String {
        match self {
            Self::None | Self::All => "/".to_owned(),
            Self::Status(Status::Failed) => "/failed".to_owned(),
            Self::Status(status) => format!("/?status={status}"),
        }
    }

    /// Its page with older mails.
    pub(super) fn before(self, id: i64) -> String {
        let href = self.href();
        let sign = if href.contains('?') { '&' } else { '?' };
        format!("{href}{sign}before={id}")
    }
}

/// How a page is kept up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    Nothing,
    All,
    Mail(i64),
}

/// The element for live updates. Turbo keeps it across pages that have one with the same id.
fn live(watch: Watch) -> Markup {
    let (id, about) = match watch {
        Watch::Nothing => return html! {},
        Watch::All => ("live".to_owned(), String::new()),
        Watch::Mail(mail) => (format!("live-{mail}"), format!("&message={mail}")),
    };
    html! { abide-live id=(id) data-turbo-permanent src={ "/live?format=turbo" (about) } {} }
}

/// A page.
pub(super) fn frame(title: &str, tab: Tab, watch: Watch, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="turbo-refresh-method" content="morph";
                meta name="turbo-refresh-scroll" content="preserve";
                title { (title) " · Outbox" }
                link rel="icon" href=(ICON);
                link rel="stylesheet" href={ "/assets/" (STYLE.name) };
                @for script in [&*TURBO, &*LIVE, &*SCRIPT] {
                    script defer src={ "/assets/" (script.name) } {}
                }
            }
            body data-tab=(tab.name()) {
                header.top {
                    a.brand href="/" { (envelope()) "Outbox" }
                    (live(watch))
                    span.grow {}
                    a.do href="/compose" { "Compose" }
                }
                main { (body) }
            }
        }
    }
}

/// The program's logo.
pub(super) fn envelope() -> Markup {
    html! {
        svg viewBox="0 0 32 32" aria-hidden="true" {
            rect width="32" height="32" rx="8" {}
            path d="M7 10.5h18v11.5H7z M7 11l9 6.5 9-6.5" {}
        }
    }
}

const ICON: PreEscaped<&str> = PreEscaped(
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='8' \
     fill='%230f766e'/%3E%3Cpath d='M7 10.5h18v11.5H7z M7 11l9 6.5 9-6.5' fill='none' stroke='white' stroke-width='2'/%3E%3C/svg%3E",
);
