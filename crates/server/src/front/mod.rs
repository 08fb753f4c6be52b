//! The front page of a listener, at `/`: what is running, and commands to try.
//!
//! Contract: a browser (`Accept: text/html`) gets a page, all others get the same content as JSON. A client without
//! permission learns only that this is an abide node and how to log in. The page loads nothing from elsewhere and runs
//! no script.

mod address;
mod overview;
mod page;

use std::{path::PathBuf, sync::Arc};

use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::{
    ApiError, Page,
    access::{Access, Need, Role, protect},
    readiness::Readiness,
};
pub(crate) use address::Endpoint;
use overview::Census;

/// The maximum size of an error's body that is shown on a page.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// A program's description at `/`: see [`HostBuilder::front_page`](crate::HostBuilder::front_page).
///
/// The host adds the classes with their object counts, the outboxes with their message counts, and links to health and
/// metrics.
///
/// ```
/// use abide_server::FrontPage;
///
/// let page = FrontPage::new("Seat maps", "An object for each flight keeps its seats.")
///     .link("/docs", "The guide")
///     .try_curl("See who sits where", "", "/flights/BA117/2026-12-01");
/// # let _ = page;
/// ```
#[derive(Clone, Debug)]
pub struct FrontPage {
    title: String,
    about: String,
    links: Vec<Link>,
    commands: Vec<Command>,
}

/// A link to a path of this listener.
#[derive(Clone, Debug)]
struct Link {
    path: String,
    text: String,
}

/// A command to try.
#[derive(Clone, Debug)]
struct Command {
    purpose: String,
    /// The options between `curl` and the address.
    options: String,
    path: String,
}

impl FrontPage {
    /// A page with this title, and a sentence about the program below it.
    pub fn new(title: impl Into<String>, about: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            about: about.into(),
            links: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Adds a link to a path of the program.
    #[must_use]
    pub fn link(mut self, path: impl Into<String>, text: impl Into<String>) -> Self {
        self.links.push(Link {
            path: path.into(),
            text: text.into(),
        });
        self
    }

    /// Adds a command to try: `curl OPTIONS ADDRESS/PATH`. The page fills in the address with which it was requested,
    /// and a header for the token if the listener requires one. `{address}` in `options` is replaced by that address,
    /// too. `options` and `path` must be quoted for a shell.
    #[must_use]
    pub fn try_curl(
        mut self,
        purpose: impl Into<String>,
        options: impl Into<String>,
        path: impl Into<String>,
    ) -> Self {
        self.commands.push(Command {
            purpose: purpose.into(),
            options: options.into(),
            path: path.into(),
        });
        self
    }
}

/// The listener that shows the page.
#[derive(Clone, Debug)]
pub(crate) enum Listener {
    /// The clients' listener. `admin`: the admin listener of the same node.
    Clients {
        page: FrontPage,
        admin: Option<Endpoint>,
    },
    /// The admin listener. `data_dir`: where `admin.sock` is, if it exists.
    Admin {
        data_dir: Option<PathBuf>,
        /// Metrics are open to anyone who reaches it.
        open_metrics: bool,
    },
}

impl Listener {
    /// The paths that anyone may read.
    fn open(&self) -> &'static [&'static str] {
        match self {
            Self::Clients { .. } => &[],
            Self::Admin {
                open_metrics: false,
                ..
            } => &["/healthz", "/readyz"],
            Self::Admin {
                open_metrics: true, ..
            } => &["/healthz", "/readyz", "/metrics"],
        }
    }
}

/// The data for a front page.
struct Front {
    listener: Listener,
    endpoint: Endpoint,
    /// Whether the commands on the page need a token.
    needs_token: bool,
    census: Census,
}

/// A router that serves `/`. `access` controls who may read it, once it is known.
pub(crate) fn router(
    listener: Listener,
    endpoint: Endpoint,
    needs_token: bool,
    readiness: Arc<Readiness>,
    access: impl Fn() -> Result<Access, ApiError> + Send + Sync + 'static,
) -> Router {
    let front = Arc::new(Front {
        listener,
        endpoint,
        needs_token,
        census: Census::new(readiness),
    });
    let router = Router::new()
        .route("/", get(show))
        .with_state(Arc::clone(&front));
    protect(router, access, |_| Need::role(Role::Read))
        .route_layer(middleware::from_fn_with_state(front, show_refusal))
}

async fn show(State(front): State<Arc<Front>>, request: Request) -> Result<Response, ApiError> {
    let overview = front.census.overview().await?;
    let (head, _) = request.into_parts();
    let address = front.endpoint.address(&head);
    Ok(if wants_html(&head.headers) {
        html(page::overview(&front, &overview, &address))
    } else {
        uncached(Json(page::json(&front, &overview, &address)).into_response())
    })
}

/// Shows an error to a browser as a page, with its status and headers.
async fn show_refusal(State(front): State<Arc<Front>>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let address = front.endpoint.address(&head);
    let as_page = wants_html(&head.headers);
    let response = next.run(Request::from_parts(head, body)).await;
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    if !as_page || !is_error {
        return uncached(response);
    }
    let (mut head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, MAX_ERROR_BYTES).await;
    let error: serde_json::Value = body
        .ok()
        .and_then(|body| serde_json::from_slice(&body).ok())
        .unwrap_or_default();
    let message = error["error"]["message"].as_str().unwrap_or_default();
    let takes_token = head.headers.contains_key(header::WWW_AUTHENTICATE);
    let is_login = head.status == StatusCode::UNAUTHORIZED && takes_token;
    let page = page::refusal(
        message,
        is_login.then_some(&*address),
        front.listener.open(),
    );
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.remove(header::CONTENT_TYPE);
    let mut response = html(page);
    *response.status_mut() = head.status;
    for (name, value) in &head.headers {
        response.headers_mut().append(name, value.clone());
    }
    response
}

fn html(page: maud::Markup) -> Response {
    uncached(Page::new(page.into_string(), &page::POLICY).into_response())
}

fn uncached(mut response: Response<Body>) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

/// Whether the client is a browser: it accepts HTML, and does not prefer JSON.
fn wants_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepted: Vec<&str> = accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    let weight = |media: &str| {
        let ranges = accepted.iter().filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            if !parts.next()?.eq_ignore_ascii_case(media) {
                return None;
            }
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            Some(weight.map_or(1.0, |weight| weight.parse::<f32>().unwrap_or(0.0)))
        });
        ranges.fold(0.0, f32::max)
    };
    weight("text/html") > 0.0 && weight("text/html") >= weight("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_for_clients_that_name_html_and_prefer_no_json() {
        let chromium = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
        for (accept, expected) in [
            (chromium, true),
            ("text/html", true),
            ("TEXT/HTML; charset=utf-8; q=0.5", true),
            ("*/*", false),
            ("application/json", false),
            ("application/json, text/html;q=0.9", false),
            ("text/html;q=0", false),
            ("text/htmlx", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            assert_eq!(wants_html(&headers), expected, "{accept}");
        }
        assert!(!wants_html(&HeaderMap::new()));
    }
}
