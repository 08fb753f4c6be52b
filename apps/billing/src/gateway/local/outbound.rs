//! The gateway as a node's HTTP client: requests reach it without a socket, so it works with a virtual clock.

use abide::{
    Body, Error, ErrorKind, Fetching, Outbound, Request, Response,
    http::{HeaderMap, header},
};
use http_body_util::BodyExt;

use super::{Answer, Asked, LocalGateway};

impl Outbound for LocalGateway {
    fn fetch(&self, request: Request) -> Fetching {
        let gateway = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(Error::from_std)?.to_bytes();
            let answer =
                gateway.answer(&asked(&head.method, head.uri.path(), &head.headers, &body));
            if !answer.delay.is_zero() {
                let clock = &gateway.clock;
                clock.sleep_until(clock.now() + answer.delay).await;
            }
            said(answer).ok_or_else(|| {
                Error::with_kind(
                    ErrorKind::Io,
                    "the connection was closed without a response",
                )
            })
        })
    }
}

pub(super) fn asked<'a>(
    method: &'a abide::http::Method,
    path: &'a str,
    headers: &'a HeaderMap,
    body: &'a [u8],
) -> Asked<'a> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    Asked {
        method,
        path,
        authorization: text("authorization").unwrap_or_default(),
        key: text("idempotency-key"),
        body,
    }
}

/// The response, unless there is none.
pub(super) fn said(answer: Answer) -> Option<Response> {
    let (status, body) = answer.said?;
    let mut response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = answer.retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    response.body(Body::from(body.to_string())).ok()
}
