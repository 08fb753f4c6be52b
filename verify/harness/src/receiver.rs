//! A receiver of requests that records them, and fails on demand.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::{
    Received,
    http_double::{self, Reply},
    listener::Listener,
    record::Record,
};

/// The handling of a request.
#[derive(Clone, Debug)]
pub struct ReceiverAct {
    delay: Duration,
    reply: Reply,
}

impl ReceiverAct {
    /// A response without a body.
    ///
    /// # Panics
    /// If the status is invalid.
    pub fn status(status: u16) -> Self {
        Self::reply(Reply::Answer(response(status, Bytes::new())))
    }

    /// A response with a body.
    ///
    /// # Panics
    /// If the status is invalid.
    pub fn body(status: u16, body: impl Into<Bytes>) -> Self {
        Self::reply(Reply::Answer(response(status, body.into())))
    }

    /// The connection is closed instead of responding: the response is lost.
    pub fn lost() -> Self {
        Self::reply(Reply::Drop)
    }

    /// No response, and the connection stays open.
    pub fn hang() -> Self {
        Self::reply(Reply::Hang)
    }

    /// A response with an endless body.
    ///
    /// # Panics
    /// If the status is invalid.
    pub fn endless(status: u16) -> Self {
        Self::reply(Reply::Endless(code(status)))
    }

    /// Adds a header to a response.
    ///
    /// # Panics
    /// If the header is invalid, or there is no response.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let Reply::Answer(response) = &mut self.reply else {
            panic!("there is no response to add a header to");
        };
        let name: HeaderName = name.parse().expect("a header's name");
        let value: HeaderValue = value.parse().expect("a header's value");
        response.headers_mut().insert(name, value);
        self
    }

    /// Adds `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        self.header("retry-after", &seconds.to_string())
    }

    /// Delays the response. The request counts as received immediately.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    fn reply(reply: Reply) -> Self {
        Self {
            delay: Duration::ZERO,
            reply,
        }
    }
}

fn response(status: u16, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = code(status);
    response
}

fn code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).expect("a status")
}

type Decide = Box<dyn FnMut(&Received) -> ReceiverAct + Send>;

struct Rules {
    /// By path or by key.
    scripts: HashMap<String, VecDeque<ReceiverAct>>,
    script: VecDeque<ReceiverAct>,
    decide: Decide,
}

impl Rules {
    fn next(&mut self, request: &Received) -> ReceiverAct {
        for name in [request.key(), request.path()] {
            let scripted = self.scripts.get_mut(name).and_then(VecDeque::pop_front);
            if let Some(act) = scripted {
                return act;
            }
        }
        self.script
            .pop_front()
            .unwrap_or_else(|| (self.decide)(request))
    }
}

/// A running receiver. Ends when dropped, with its connections.
pub struct Receiver {
    listener: Listener,
    requests: Arc<Record<Received>>,
    rules: Arc<Mutex<Rules>>,
}

impl Receiver {
    /// Starts one on a free local port, which responds with 200. Call it inside a tokio runtime.
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    /// Starts one on an address, which another one may have used before.
    pub async fn start_at(address: &str) -> Self {
        let requests = Arc::new(Record::default());
        let rules = Arc::new(Mutex::new(Rules {
            scripts: HashMap::new(),
            script: VecDeque::new(),
            decide: Box::new(|_| ReceiverAct::status(200)),
        }));
        let (noted, ruling) = (Arc::clone(&requests), Arc::clone(&rules));
        let listener = http_double::serve(address, move |request| {
            // In this order, so that a reader who sees a request in the record knows that its handling is decided.
            let act = ruling
                .lock()
                .expect("no panics under this lock")
                .next(&request);
            noted.change(|requests| requests.push(request));
            async move {
                tokio::time::sleep(act.delay).await;
                act.reply
            }
        })
        .await;
        Self {
            listener,
            requests,
            rules,
        }
    }

    /// Host and port.
    pub fn address(&self) -> String {
        self.listener.address().to_string()
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    /// Scripts the handling of the next requests without their own script, one each.
    pub fn script(&self, acts: impl IntoIterator<Item = ReceiverAct>) {
        self.rules(|rules| rules.script.extend(acts));
    }

    /// Scripts the handling of the next requests with this key or path, one each. A key takes precedence over a path.
    pub fn script_for(&self, name: &str, acts: impl IntoIterator<Item = ReceiverAct>) {
        self.rules(|rules| {
            rules
                .scripts
                .entry(name.to_owned())
                .or_default()
                .extend(acts);
        });
    }

    /// Decides the handling of requests after the scripts, instead of 200. It must not call this receiver.
    pub fn decide(&self, decide: impl FnMut(&Received) -> ReceiverAct + Send + 'static) {
        self.rules(|rules| rules.decide = Box::new(decide));
    }

    /// The received requests, in order.
    pub fn received(&self) -> Vec<Received> {
        self.requests.all()
    }

    /// Waits until this many requests have arrived, and returns all.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        self.requests.wait_for(count, |_| true).await
    }

    fn rules(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.rules.lock().expect("no panics under this lock"));
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("address", &self.listener.address())
            .finish_non_exhaustive()
    }
}
