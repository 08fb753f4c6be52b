//! One subscription, with its chain as a timeline.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::{
    frame::{Tab, frame, pill, time, words},
    list,
    view::{Step, Subscription},
};
use crate::Money;

/// Maximum length of a value in the timeline.
const MAX_VALUE: usize = 60;

/// Maximum number of values of an outcome in the timeline.
const MAX_VALUES: usize = 6;

/// The page of a subscription.
pub(crate) fn subscription(view: &Subscription) -> Markup {
    let body = html! {
        header.card.headline {
            div { p.soft.small { "Subscription" } h1 { (view.id) } }
            span.soft.small { (entitled(view.entitled)) }
            (pill(&view.state))
        }
        div.split {
            div {
                section.card {
                    h2 { "Now" }
                    dl { @for (name, value) in &view.facts { dt { (words(name)) } dd { (value) } } }
                }
                (list::invoices(&view.invoices))
            }
            section.card {
                h2 { "Chain" }
                p.soft.small { (view.steps.len()) " outcomes, newest first. They are all there is: the state is what they come to." }
                ol.timeline { @for step in &view.steps { (item(step)) } }
            }
        }
    };
    frame(&view.id, Tab::Subscriptions, &body)
}

fn entitled(entitled: Option<bool>) -> &'static str {
    match entitled {
        Some(true) => "Entitled now",
        Some(false) => "Not entitled",
        None => "Entitlement unknown: a timer fails",
    }
}

fn item(step: &Step) -> Markup {
    let facts = facts(&step.data);
    html! {
        li data-state=(step.state) {
            span { b { (words(&step.action)) } ": " (words(&step.outcome)) " " span.soft.small { "→ " (words(&step.state)) } }
            span { (time(step.at)) }
            @if !facts.is_empty() { p { (facts.join(" · ")) } }
        }
    }
}

/// The main values of an outcome.
fn facts(data: &Value) -> Vec<String> {
    let Value::Object(fields) = data else {
        return Vec::new();
    };
    let facts = fields.iter().filter(|(_, value)| !value.is_null());
    facts
        .take(MAX_VALUES)
        .map(|(name, value)| format!("{} {}", words(name), short(name, value)))
        .collect()
}

/// A value for people: amounts and times formatted, others unchanged, truncated.
pub(crate) fn short(name: &str, value: &Value) -> String {
    if let Ok(money) = Money::deserialize(value) {
        return money.to_string();
    }
    let is_time = ["at", "start", "end", "until", "since"]
        .iter()
        .any(|ending| name == *ending || name.ends_with(&format!("_{ending}")));
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if is_time && number.is_i64() => {
            crate::Time(number.as_i64().unwrap_or_default()).to_string()
        }
        Value::Array(items) => format!("{} of them", items.len()),
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_object() && !value.is_array() && !value.is_null())
            .map(|(name, value)| format!("{} {}", words(name), short(name, value)))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    };
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
