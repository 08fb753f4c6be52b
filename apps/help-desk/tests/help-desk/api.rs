//! The HTTP API, on a host in memory.

use std::{net::IpAddr, time::Duration};

use crate::support::in_memory;
use abide::{
    Body, Request,
    http::{StatusCode, header},
    server::{ClientAddr, LocalHost},
    testing::{Servers, TestClock},
};
use serde_json::{Value, json};
use tower::ServiceExt;

const ADA: [u8; 4] = [192, 0, 2, 1];
const GRACE: [u8; 4] = [192, 0, 2, 2];

struct Desk {
    host: LocalHost,
    clock: TestClock,
}

impl Desk {
    async fn start() -> Self {
        let clock = TestClock::new();
        let host = in_memory(&clock, &Servers::new()).start_local().await;
        Self {
            host: host.expect("a host"),
            clock,
        }
    }

    async fn send(
        &self,
        from: [u8; 4],
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> (StatusCode, Value, Option<String>) {
        let request = Request::builder()
            .method(method)
            .uri(format!("/desks/{path}"))
            .extension(ClientAddr(IpAddr::from(from)));
        let request = match body {
            None => request.body(Body::empty()),
            Some(json) => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(Body::from(json.to_string())),
        };
        let answer = self
            .host
            .router()
            .oneshot(request.expect("a request"))
            .await
            .expect("an answer");
        let (head, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX)
            .await
            .expect("a body");
        let json = serde_json::from_slice(&body).unwrap_or_else(|_| panic!("no JSON: {body:?}"));
        let wait = head
            .headers
            .get(header::RETRY_AFTER)
            .and_then(|wait| wait.to_str().ok());
        (head.status, json, wait.map(str::to_owned))
    }

    /// The status and the code of an error.
    async fn refused(&self, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        let (status, json, _) = self.send(GRACE, method, path, body).await;
        assert!(json["error"]["message"].is_string(), "{json}");
        (
            status.as_u16(),
            json["error"]["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    }
}

#[tokio::test]
async fn a_ticket_lives_from_its_question_to_its_end() {
    let desk = Desk::start().await;
    let new = json!({ "subject": "The printer is on fire", "from": "ada@example.com" });
    let (status, ticket, _) = desk.send(ADA, "POST", "support/tickets", Some(new)).await;
    assert_eq!(
        (status, &ticket["id"], &ticket["status"]),
        (StatusCode::CREATED, &json!(1), &json!("open"))
    );

    let comment = json!({ "author": "grace", "text": "Use the extinguisher." });
    let (status, ..) = desk
        .send(GRACE, "POST", "support/tickets/1/comments", Some(comment))
        .await;
    assert_eq!(status, StatusCode::CREATED);
    let (_, ticket, _) = desk
        .send(
            GRACE,
            "PUT",
            "support/tickets/1/assignee",
            Some(json!({ "assignee": "grace" })),
        )
        .await;
    assert_eq!(ticket["assignee"], "grace");
    let (_, thread, _) = desk.send(GRACE, "GET", "support/tickets/1", None).await;
    assert_eq!(thread["comments"][0]["text"], "Use the extinguisher.");

    let (_, closed, _) = desk
        .send(GRACE, "POST", "support/tickets/1/close", None)
        .await;
    assert_eq!(closed["status"], "closed");
    let (_, open, _) = desk
        .send(GRACE, "GET", "support/tickets?status=open", None)
        .await;
    assert_eq!(open, json!({ "tickets": [] }));
    let (_, all, _) = desk.send(GRACE, "GET", "support/tickets", None).await;
    assert_eq!(all["tickets"], json!([closed]));
    let (_, other, _) = desk.send(GRACE, "GET", "sales/tickets", None).await;
    assert_eq!(other, json!({ "tickets": [] }), "desks share nothing");
    desk.host.shutdown().await.expect("an end");
}

#[tokio::test]
async fn invalid_requests_are_refused_with_a_code() {
    let desk = Desk::start().await;
    let new = json!({ "subject": "x", "from": "ada" });
    desk.send(ADA, "POST", "support/tickets", Some(new.clone()))
        .await;
    desk.send(ADA, "POST", "support/tickets/1/close", None)
        .await;

    let blank = json!({ "subject": " ", "from": "ada" });
    let cases = [
        ("GET", "support/tickets/2", None, (404, "no_such_ticket")),
        (
            "POST",
            "support/tickets/2/close",
            None,
            (404, "no_such_ticket"),
        ),
        (
            "POST",
            "support/tickets/1/close",
            None,
            (409, "ticket_closed"),
        ),
        (
            "PUT",
            "support/tickets/1/assignee",
            Some(json!({ "assignee": "grace" })),
            (409, "ticket_closed"),
        ),
        (
            "PUT",
            "support/tickets/1/assignee",
            Some(json!({ "assignee": "" })),
            (400, "invalid_text"),
        ),
        (
            "POST",
            "support/tickets",
            Some(blank),
            (400, "invalid_text"),
        ),
        (
            "POST",
            "support/tickets",
            Some(json!({ "subject": "x" })),
            (400, "invalid_body"),
        ),
        (
            "GET",
            "support/tickets?status=lost",
            None,
            (400, "invalid_query"),
        ),
        ("GET", "support/tickets/one", None, (400, "invalid_path")),
        ("GET", "No_Desk/tickets", None, (400, "invalid_path")),
        (
            "POST",
            "support/restore",
            Some(json!({ "at": 1 })),
            (500, "object_error"),
        ),
    ];
    for (method, path, body, (status, code)) in cases {
        let refused = desk.refused(method, path, body).await;
        assert_eq!(refused, (status, code.to_owned()), "{method} {path}");
    }
    desk.host.shutdown().await.expect("an end");
}

#[tokio::test]
async fn an_address_that_writes_too_much_waits_and_delays_no_other() {
    let desk = Desk::start().await;
    let new = || Some(json!({ "subject": "x", "from": "ada" }));
    for _ in 0..3 {
        let (status, ..) = desk.send(ADA, "POST", "support/tickets", new()).await;
        assert_eq!(status, StatusCode::CREATED);
    }
    desk.clock.advance(Duration::from_secs(4));
    let (status, refusal, wait) = desk.send(ADA, "POST", "sales/tickets", new()).await;
    assert_eq!(
        (status, wait.as_deref()),
        (StatusCode::TOO_MANY_REQUESTS, Some("6"))
    );
    assert_eq!(refusal["error"]["code"], "too_many_writes");
    let (status, ..) = desk.send(GRACE, "POST", "support/tickets", new()).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, ..) = desk.send(ADA, "GET", "support/tickets", None).await;
    assert_eq!(status, StatusCode::OK, "reads are not counted");

    desk.clock.advance(Duration::from_secs(6));
    let (status, ..) = desk.send(ADA, "POST", "support/tickets", new()).await;
    assert_eq!(status, StatusCode::CREATED);

    // A clock that is set back makes no client wait for longer than after a whole burst.
    desk.clock.set_wall(-3_600_000);
    let (status, _, wait) = desk.send(ADA, "POST", "support/tickets", new()).await;
    assert_eq!(
        (status, wait.as_deref()),
        (StatusCode::TOO_MANY_REQUESTS, Some("10"))
    );
    desk.clock.advance(Duration::from_secs(10));
    let (status, ..) = desk.send(ADA, "POST", "support/tickets", new()).await;
    assert_eq!(status, StatusCode::CREATED);
    desk.host.shutdown().await.expect("an end");
}
