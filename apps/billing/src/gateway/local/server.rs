//! The gateway over HTTP, with a page for customer authentication.
//!
//! Contract: it answers only under its own address, and to no page of another origin: a click on that page moves money.

use std::net::SocketAddr;

use abide::server::page_headers;
use axum::{
    Router,
    extract::{Path, Request, State},
    http::{HeaderMap, Method, StatusCode, header, uri::Authority},
    middleware::{Next, from_fn, map_response},
    response::{Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};
use http_body_util::{BodyExt, Limited};
use maud::{DOCTYPE, html};

use super::{
    LocalGateway,
    outbound::{asked, said},
};

/// Maximum size of a request in bytes.
const MAX_REQUEST: usize = 64 << 10;

/// The page loads nothing, and its form goes to the gateway.
const POLICY: &str =
    "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The gateway's routes at an address: its API, and `/pay/{id}` for customers.
pub fn router(gateway: LocalGateway, address: SocketAddr) -> Router {
    let own = [address.to_string(), format!("localhost:{}", address.port())];
    Router::new()
        .route("/pay/{id}", get(page))
        .route("/pay/{id}/{answer}", post(authenticate))
        .layer(map_response(page_headers(POLICY)))
        .fallback(api)
        .layer(from_fn(move |request, next| {
            own_only(own.clone(), request, next)
        }))
        .with_state(gateway)
}

async fn own_only(own: [String; 2], request: Request, next: Next) -> Response {
    let headers = request.headers();
    let authority = request.uri().authority().map(Authority::as_str);
    let host = one(headers, header::HOST.as_str()).or(authority);
    let is_named = headers.get_all(header::HOST).iter().count() <= 1
        && host.is_some_and(|host| own.iter().any(|own| own.eq_ignore_ascii_case(host)));
    let is_foreign = match one(headers, header::ORIGIN.as_str()) {
        Some(origin) => origin.strip_prefix("http://") != host,
        // Browsers send no `Origin` with a link, and say where it is.
        None => {
            let reads = matches!(*request.method(), Method::GET | Method::HEAD);
            let site = one(headers, "sec-fetch-site");
            !reads && site.is_some_and(|site| !matches!(site, "same-origin" | "none"))
        }
    };
    if is_named && !is_foreign {
        return next.run(request).await;
    }
    let text = format!("This gateway answers only at http://{}.", own[0]);
    (StatusCode::FORBIDDEN, text).into_response()
}

/// The value of a header; a value that is not text is no value of ours.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get(name)?;
    Some(value.to_str().unwrap_or("?"))
}

async fn api(State(gateway): State<LocalGateway>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MAX_REQUEST).collect().await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let body = body.to_bytes();
    let answer = gateway.answer(&asked(&head.method, head.uri.path(), &head.headers, &body));
    if !answer.delay.is_zero() {
        let clock = &gateway.clock;
        clock.sleep_until(clock.now() + answer.delay).await;
    }
    said(answer).unwrap_or_else(broken)
}

/// Closes the connection before anything useful was sent.
fn broken() -> Response {
    let nothing = futures_util::stream::once(async {
        Err::<axum::body::Bytes, _>(std::io::Error::other("the answer is lost"))
    });
    Response::new(axum::body::Body::from_stream(nothing))
}

async fn page(State(gateway): State<LocalGateway>, Path(id): Path<String>) -> Response {
    let payments = gateway.payments();
    let Some(payment) = payments.into_iter().find(|payment| payment.id == id) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let waits = payment.action_url.is_some();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Is it you?" }
            }
            body {
                main {
                    h1 { (payment.amount) }
                    @if waits {
                        p { "Your bank wants to know whether this payment is yours." }
                        form method="post" action={ "/pay/" (id) "/yes" } { button { "It is mine" } }
                        form method="post" action={ "/pay/" (id) "/no" } { button { "It is not" } }
                    } @else {
                        p { "This payment is not waiting for authentication." }
                    }
                }
            }
        }
    };
    Html(page.into_string()).into_response()
}

async fn authenticate(
    State(gateway): State<LocalGateway>,
    Path((id, answer)): Path<(String, String)>,
) -> Redirect {
    gateway.authenticate(&id, answer == "yes");
    Redirect::to(&format!("/pay/{id}"))
}
