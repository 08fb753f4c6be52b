//! The program's parts in one process: objects, a gateway behind its adapter, and a read model in a file.

use std::sync::Arc;

use abide::{
    Body, Host,
    clock::SystemClock,
    http::Request,
    server::{Hosts, LocalHost},
};
use abide::{outbox::handlers::Secret, projection::SqliteModel};
use axum::Router;
use billing::{
    Time,
    gateway::{AnyGateway, EventSecrets, GatewayEvent, HttpGateway, LocalGateway, Mischief},
    host, read,
    test_clock::TestModeClock,
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

/// What the gateway signs with.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(crate) struct World {
    pub(crate) host: LocalHost,
    pub(crate) gateway: LocalGateway,
    pub(crate) router: Router,
    _dir: TempDir,
}

pub(crate) fn secret() -> Secret {
    SECRET.parse().unwrap()
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{}", self.text))
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::at(None).await
    }

    /// With a clock that can be moved, or with the real one.
    pub(crate) async fn at(clock: Option<TestModeClock>) -> Self {
        let gateway = LocalGateway::new("k", Mischief::none(1), Arc::new(SystemClock::new()));
        let dir = tempfile::tempdir().unwrap();
        let model = SqliteModel::open(dir.path().join("read-model.db"), read::tables().unwrap());
        let adapter = AnyGateway::new(HttpGateway::new("http://gateway.test", "k"));
        let mut host = host::install(Host::open_in_memory(), adapter, Arc::new(model.unwrap()));
        if let Some(clock) = clock {
            host = host.clock(Arc::new(clock.clone())).with(clock);
        }
        let host = host
            .outbound(Arc::new(gateway.clone()))
            .with(EventSecrets::new([secret()]))
            // As the gateway knows it.
            .configure(|c| c.server.hosts = Hosts::Named(vec!["billing.example".to_owned()]))
            .start_local()
            .await
            .unwrap();
        Self {
            router: host.router(),
            host,
            gateway,
            _dir: dir,
        }
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Value,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if !body.is_null() {
            request = request.header("content-type", "application/json");
        }
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.send(request.body(Body::from(body)).unwrap()).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Answer {
            status,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None, Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, key: Option<&str>) -> Answer {
        self.ask("POST", path, key, Value::Null).await
    }

    /// The gateway's webhook comes, signed this many seconds ago with a secret.
    pub(crate) async fn event(&self, event: &GatewayEvent, secret: &Secret, ago: i64) -> u16 {
        let body = serde_json::to_vec(event).unwrap();
        let now = Time::now(&**self.host.env().clock()).seconds();
        let mut request = Request::post("/v1/gateway/events").header("host", "billing.example");
        for (name, value) in secret.headers(&event.id, now - ago, &body) {
            request = request.header(name, value);
        }
        self.send(request.body(Body::from(body)).unwrap())
            .await
            .status
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> String {
        let answer = self.ask("POST", path, None, body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// A price, and a customer with a card; what a subscription is created with.
    pub(crate) async fn offer(&self, card: &str) -> Value {
        let product = self
            .create("/v1/products", json!({ "name": "Seats" }))
            .await;
        let price = json!({
            "product": product,
            "unit_amount": { "amount": 1_250, "currency": "EUR" },
            "every": { "count": 1, "unit": "month" },
        });
        let price = self.create("/v1/prices", price).await;
        let customer = json!({ "name": "Ada", "email": "ada@example.com", "payment_method": card });
        let customer = self.create("/v1/customers", customer).await;
        json!({ "customer": customer, "price": price, "quantity": 2 })
    }

    pub(crate) async fn until(&self, path: &str, what: impl Fn(&Answer) -> bool) -> Answer {
        abide_harness::until(path, async || {
            let answer = self.get(path).await;
            what(&answer).then_some(answer)
        })
        .await
    }

    pub(crate) async fn becomes(&self, path: &str, state: &str) -> Value {
        let so = |answer: &Answer| answer.status == 200 && answer.json()["state"] == state;
        self.until(path, so).await.json()
    }
}
