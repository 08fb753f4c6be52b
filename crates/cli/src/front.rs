//! The front page of `abide serve`, and the guides that it links to: those of this version, available offline.

use abide::{
    Env,
    server::{
        ApiError, FrontPage, UrlPath,
        access::{Access, Need, Role},
    },
};
use axum::{Router, http::header, response::IntoResponse, routing::get};

/// A guide: its page, its title, its text.
struct Guide(&'static str, &'static str, &'static str);

macro_rules! guides {
    ($($page:literal: $about:literal,)+) => {
        &[$(Guide($page, $about, include_str!(concat!("../../../docs/", $page)))),+]
    };
}

const GUIDES: &[Guide] = guides! {
    "getting-started.md": "Getting started",
    "configuration.md": "Settings, health and metrics",
    "access.md": "Access: tokens, TLS, proxies",
    "outbox.md": "The outbox",
    "recovery.md": "Restoring objects",
    "limits.md": "Limits",
};

/// The content of `/`.
pub(crate) fn page() -> FrontPage {
    let page = FrontPage::new(
        "abide serve",
        "Key-value objects and outboxes for programs in any language.",
    )
    .try_curl(
        "Set a key of the object ada",
        "-X PUT --json '\"green\"'",
        "/kv/ada/color",
    )
    .try_curl("Read it, even after kill -9", "", "/kv/ada/color")
    .try_curl(
        "Enqueue a request: the outbox retries it until it is answered",
        r#"--json '{"kind":"http","payload":{"method":"GET","url":"https://example.com/"}}'"#,
        "/outbox/orders/messages",
    )
    .try_curl(
        "Count its messages; the outbox also has a page, see below",
        "",
        "/outbox/orders",
    )
    .link("/outbox/orders/page", "The outbox orders, live")
    .link("/outbox/openapi.json", "The outbox's API, for programs");
    GUIDES.iter().fold(page, |page, Guide(file, about, _)| {
        page.link(format!("/guides/{file}"), format!("Guide: {about}"))
    })
}

/// `/guides/{page}`.
pub(crate) fn guides(env: &Env) -> Router {
    let router = Router::new().route("/guides/{page}", get(guide));
    Access::of(env).protect(router, |_| Need::role(Role::Read))
}

async fn guide(UrlPath(page): UrlPath<String>) -> Result<impl IntoResponse, ApiError> {
    let found = GUIDES.iter().find(|Guide(file, ..)| *file == page);
    let Guide(.., text) =
        found.ok_or_else(|| ApiError::not_found("no_such_guide", "There is no such guide."))?;
    let kind = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((kind, *text))
}
