//! The frame of all pages.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::assets::{SCRIPT, STYLE};

/// A page.
pub(super) fn frame(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Request scheduler" }
                link rel="icon" href=(ICON);
                link rel="stylesheet" href={ "/assets/" (STYLE.name) };
                script defer src={ "/assets/" (SCRIPT.name) } {}
            }
            body {
                header.top {
                    a.brand href="/requests" { (mark()) "Request scheduler" }
                    span.live { "Updated every 2 s" }
                }
                main { (body) }
            }
        }
    }
}

/// The mark of the program: a clock.
fn mark() -> Markup {
    html! {
        svg viewBox="0 0 32 32" aria-hidden="true" {
            rect width="32" height="32" rx="8" {}
            circle cx="16" cy="16" r="8.5" {}
            path d="M16 11v5.5l3.5 2.5" {}
        }
    }
}

const ICON: PreEscaped<&str> = PreEscaped(
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='8' \
     fill='%234338ca'/%3E%3Cg fill='none' stroke='white' stroke-width='2'%3E%3Ccircle cx='16' cy='16' r='8.5'/%3E%3Cpath \
     d='M16 11v5.5l3.5 2.5'/%3E%3C/g%3E%3C/svg%3E",
);
