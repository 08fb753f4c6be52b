//! Calls over HTTP and JSON.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use abide::{
    prelude::*,
    server::{Host, HostBuilder, RunningHost},
    storage::SimDisk,
};
use axum::{Router, body::Bytes, routing::get};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[durable_object]
struct Seats {
    ctx: Ctx,
}

impl DurableObject for Seats {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SeatError {
    Taken { by: String },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    id: u64,
    price: f64,
    from: IpAddr,
    bytes: Vec<u8>,
    seats: BTreeMap<u32, String>,
    note: Option<String>,
}

#[rpc]
impl Seats {
    pub async fn take(&self, seat: String, who: String) -> Result<u32, SeatError> {
        let storage = self.ctx.storage();
        match storage.get::<String>(&seat).unwrap_or_default() {
            Some(by) => Err(SeatError::Taken { by }),
            None => {
                storage.put(&seat, &who).expect("storage");
                Ok(1)
            }
        }
    }

    pub async fn count(&self) -> Result<i64> {
        let storage = self.ctx.storage();
        let count = storage.get("count")?.unwrap_or(0) + 1;
        storage.put("count", &count)?;
        Ok(count)
    }

    /// Counts, and returns what Rust can take and JSON cannot.
    pub async fn grid(&self) -> Result<BTreeMap<(i64, i64), i64>> {
        Ok(BTreeMap::from([((1, 1), self.count().await?)]))
    }

    pub async fn describe(&self, plan: Plan) -> Plan {
        plan
    }

    pub async fn nothing(&self) {}

    pub async fn who(&self) -> Option<String> {
        self.ctx.name()
    }

    pub async fn panic(&self) {
        panic!("on purpose");
    }
}

fn builder(disk: &Arc<SimDisk>) -> HostBuilder {
    Host::open_in_memory()
        .disk(Arc::<SimDisk>::clone(disk))
        .object::<Seats>()
        .router(|_| Router::new().route("/rpc/{a}/{b}/{c}", get(async || "the program's own")))
        .configure(|c| {
            c.storage.segment_bytes = 1 << 20;
            c.storage.checkpoint_bytes = 4 << 20;
        })
}

async fn host() -> RunningHost {
    builder(&Arc::default()).json_rpc().start().await.unwrap()
}

/// Sends a request; the answer's status and JSON.
async fn post(
    addr: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<String>,
) -> (u16, Value) {
    let mut request = http::Request::post(format!("http://{addr}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::<Bytes>::from(body.into())).unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http();
    let (parts, body) = client.request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let value = serde_json::from_slice(&body).unwrap_or_else(|_| {
        panic!(
            "no JSON: {} {}",
            parts.status,
            String::from_utf8_lossy(&body)
        )
    });
    (parts.status.as_u16(), value)
}

const JSON: (&str, &str) = ("content-type", "application/json");

async fn call(addr: SocketAddr, path: &str, args: Value) -> (u16, Value) {
    post(addr, &format!("/rpc/{path}"), &[JSON], args.to_string()).await
}

fn told((status, body): &(u16, Value)) -> (u16, &str) {
    (*status, body["error"]["code"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn what_a_method_returns_is_the_answer_and_its_error_is_an_error() {
    let host = host().await;
    let addr = host.addr();
    let take = async |who: &str| call(addr, "Seats/BA117/take", json!(["14C", who])).await;
    assert_eq!(take("ada").await, (200, json!(1)));
    let refused = take("bob").await;
    assert_eq!(told(&refused), (422, "method_error"));
    assert_eq!(
        refused.1["error"]["details"],
        json!({"Taken": {"by": "ada"}})
    );
    assert_eq!(
        call(addr, "Seats/BA117/nothing", json!([])).await,
        (200, Value::Null)
    );
    assert_eq!(
        call(addr, "Seats/LH%2F400/who", json!([])).await,
        (200, json!("LH/400")),
        "a name is percent-encoded in the path"
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_result_json_cannot_express_is_reported_as_applied_once() {
    let host = host().await;
    let addr = host.addr();
    for _ in 0..2 {
        let headers = [JSON, ("idempotency-key", "\"one\"")];
        let answer = post(addr, "/rpc/Seats/BA117/grid", &headers, "[]").await;
        assert_eq!(told(&answer), (500, "no_result"), "{answer:?}");
    }
    let count = call(addr, "Seats/BA117/count", json!([])).await;
    assert_eq!(count, (200, json!(2)), "once before");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn values_are_as_serde_json_writes_them() {
    let host = host().await;
    let plan = json!({
        "id": u64::MAX, "price": 12, "from": "192.0.2.1", "bytes": [0, 255], "seats": {"14": "ada"}, "note": null,
    });
    let (status, mut back) = call(host.addr(), "Seats/BA117/describe", json!([plan])).await;
    assert_eq!(status, 200);
    assert_eq!(
        back["price"].take(),
        json!(12.0),
        "a float may be written as an integer"
    );
    assert_eq!(back["id"], json!(u64::MAX), "64 bits are exact");
    assert_eq!(back["from"], plan["from"]);
    assert_eq!(
        (&back["bytes"], &back["seats"]),
        (&plan["bytes"], &plan["seats"])
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_invalid_call_is_refused_with_the_reason() {
    let host = host().await;
    let addr = host.addr();
    for (path, args, expected, says) in [
        (
            "PLANES/a/count",
            json!([]),
            (404, "unknown_class"),
            "`Seats`",
        ),
        (
            "Seats/a/sell",
            json!([]),
            (404, "unknown_method"),
            "no RPC method `sell`",
        ),
        (
            "Seats/a/take",
            json!(["14C"]),
            (400, "bad_arguments"),
            "expected 2, got 1",
        ),
        (
            "Seats/a/take",
            json!([14, "ada"]),
            (400, "bad_arguments"),
            "expected a string",
        ),
        (
            "Seats/a/take",
            json!({"seat": "14C"}),
            (400, "bad_arguments"),
            "not a JSON array",
        ),
        (
            "Seats/a/panic",
            json!([]),
            (503, "object_reset"),
            "was reset while it handled the request",
        ),
    ] {
        let answer = call(addr, path, args).await;
        assert_eq!(told(&answer), expected, "{path}: {answer:?}");
        let message = answer.1["error"]["message"].as_str().unwrap();
        assert!(message.contains(says), "{message}");
        assert!(!answer.1.to_string().contains("on purpose"), "{message}");
    }
    let page = [
        ("content-type", "text/plain"),
        ("sec-fetch-site", "same-origin"),
    ];
    let answer = post(addr, "/rpc/Seats/a/count", &page, "[]").await;
    assert_eq!(told(&answer), (415, "unsupported_media_type"));
    let program = &page[..1];
    let answer = post(addr, "/rpc/Seats/a/count", program, "[]").await;
    assert_eq!(answer.0, 200, "{answer:?}");
    let answer = post(
        addr,
        "/rpc/Seats/a/count",
        &[JSON, ("idempotency-key", "")],
        "[]",
    )
    .await;
    assert_eq!(told(&answer), (400, "invalid_idempotency_key"));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_call_with_an_idempotency_key_is_applied_once_also_after_a_restart() {
    let disk = Arc::new(SimDisk::new());
    let count = async |addr, key: &str, args: &str| {
        let headers = [JSON, ("Idempotency-Key", key)];
        post(addr, "/rpc/Seats/a/count", &headers, args).await
    };
    let host = builder(&disk).json_rpc().start().await.unwrap();
    assert_eq!(count(host.addr(), "\"one\"", "[]").await, (200, json!(1)));
    assert_eq!(count(host.addr(), "one", "[]").await, (200, json!(1)));
    assert_eq!(count(host.addr(), "two", "[]").await, (200, json!(2)));
    assert_eq!(
        told(&count(host.addr(), "one", "[ ]").await),
        (422, "idempotency_key_reused"),
        "the text of the arguments counts"
    );
    host.shutdown().await.unwrap();

    let host = builder(&disk).json_rpc().start().await.unwrap();
    assert_eq!(count(host.addr(), "one", "[]").await, (200, json!(1)));
    assert_eq!(count(host.addr(), "three", "[]").await, (200, json!(3)));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_addresses_are_off_unless_they_are_asked_for() {
    let host = builder(&Arc::default()).start().await.unwrap();
    let request = http::Request::post(format!("http://{}/rpc/Seats/a/count", host.addr()))
        .header(JSON.0, JSON.1)
        .body(Full::<Bytes>::from("[]"))
        .unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer: http::Response<_> = client.request(request).await.unwrap();
    // The program's own route takes no POST.
    assert_eq!(answer.status(), 405);
    host.shutdown().await.unwrap();
}
