//! The HTML pages.

mod frame;
mod list;
mod overview;
mod subscription;
pub(crate) mod view;

use abide::http::StatusCode;
use maud::{Markup, html};

use frame::{Tab, frame};

pub(crate) use list::subscriptions;
pub(crate) use overview::overview;
pub(crate) use subscription::{short, subscription};

/// An error page.
pub(crate) fn error(status: StatusCode, message: &str) -> Markup {
    let title = status.canonical_reason().unwrap_or("Error");
    let body = html! {
        div.card.empty { h1 { (title) } p.soft { br; (message) } }
    };
    frame(title, Tab::None, &body)
}
