//! The gateway over HTTP, with a page for customer authentication.

use axum::{
    Router,
    extract::{Path, Request, State},
    http::StatusCode,
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

/// The gateway's routes: its API, and `/pay/{id}` for customers.
pub fn router(gateway: LocalGateway) -> Router {
    Router::new()
        .route("/pay/{id}", get(page))
        .route("/pay/{id}/{answer}", post(authenticate))
        .fallback(api)
        .with_state(gateway)
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
            head { meta charset="utf-8"; title { "Is it you?" } }
            body {
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
