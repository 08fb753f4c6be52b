//! The frame of all pages.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{Money, Time, assets::STYLE};

/// The page's place in the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    None,
    Overview,
    Subscriptions,
}

const TABS: [(Tab, &str, &str); 2] = [
    (Tab::Overview, "/", "Overview"),
    (Tab::Subscriptions, "/subscriptions", "Subscriptions"),
];

/// A page.
pub(super) fn frame(title: &str, tab: Tab, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Billing" }
                link rel="icon" href=(ICON);
                link rel="stylesheet" href={ "/assets/" (STYLE.name) };
            }
            body {
                header.top {
                    a.brand href="/" { (mark()) "Billing" }
                    nav aria-label="Pages" {
                        @for (this, href, name) in TABS {
                            a href=(href) aria-current=[(this == tab).then_some("page")] { (name) }
                        }
                    }
                }
                main { (body) }
            }
        }
    }
}

fn mark() -> Markup {
    html! {
        svg viewBox="0 0 32 32" aria-hidden="true" {
            rect width="32" height="32" rx="8" {}
            path d="M24 16a8 8 0 1 1-2.6-5.9 M24 6.5v4.6h-4.6" {}
        }
    }
}

/// A state in words.
pub(super) fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// A state.
pub(super) fn pill(state: &str) -> Markup {
    html! { span.pill data-state=(state) { (words(state)) } }
}

/// An amount with thousands separators: `51,402.56 EUR`.
pub(super) fn money(amount: Money) -> String {
    let text = amount.to_string();
    let whole = text.find(['.', ' ']).unwrap_or(text.len());
    let (whole, rest) = text.split_at(whole);
    let digits = whole.trim_start_matches('-').len();
    let sign = whole.len() - digits;
    let mut grouped = String::from(&whole[..sign]);
    for (place, digit) in whole[sign..].chars().enumerate() {
        if place > 0 && (digits - place) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// A moment, to the minute.
pub(super) fn time(at: Time) -> Markup {
    let text = at.to_string();
    let short = text.get(..16).unwrap_or(&text).replace('T', " ");
    html! { time datetime=(text) { (short) } }
}

/// A moment's day.
pub(super) fn day(at: Time) -> Markup {
    let text = at.to_string();
    html! { time datetime=(text) { (text.get(..10).unwrap_or(&text)) } }
}

const ICON: PreEscaped<&str> = PreEscaped(
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='8' \
     fill='%234f46e5'/%3E%3Cpath d='M24 16a8 8 0 1 1-2.6-5.9 M24 6.5v4.6h-4.6' fill='none' stroke='white' stroke-width='2.4' \
     stroke-linecap='round'/%3E%3C/svg%3E",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        let money = |amount| money(Money::new(amount, "EUR".parse().unwrap()).unwrap());
        assert_eq!(money(5_140_256), "51,402.56 EUR");
        assert_eq!(money(-100_000), "-1,000.00 EUR");
        assert_eq!(money(99_999), "999.99 EUR");
    }
}
