//! The real binary in front of a real origin, and visitors with cookies.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide_harness::{Answer, Client, Program, Server, until};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

/// What the origin answers.
pub(crate) const WELCOME: &str = "welcome to the application";

/// An application that counts its visitors' requests.
pub(crate) struct Origin {
    pub(crate) address: String,
    pub(crate) requests: Arc<AtomicUsize>,
    /// Lets `/stream` send its second half.
    pub(crate) go_on: Arc<Notify>,
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    requests: Arc<AtomicUsize>,
    go_on: Arc<Notify>,
}

impl Origin {
    pub(crate) async fn start() -> Self {
        let shared = Shared {
            requests: Arc::default(),
            go_on: Arc::default(),
        };
        let router = Router::new()
            .route("/headers", get(headers))
            .route("/missing", get(async || StatusCode::NOT_FOUND))
            .route("/stream", get(halves))
            .route("/upload", post(upload))
            .fallback(welcome)
            .with_state(shared.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let task = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            requests: shared.requests,
            go_on: shared.go_on,
            task,
        }
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn welcome(State(shared): State<Shared>) -> &'static str {
    shared.requests.fetch_add(1, Ordering::SeqCst);
    WELCOME
}

async fn headers(headers: HeaderMap) -> Response {
    let list = headers.iter().map(|(name, value)| {
        (
            name.to_string(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    });
    let list = list.collect::<Vec<_>>();
    (
        [
            ("connection", "x-inner"),
            ("x-inner", "1"),
            ("x-outer", "1"),
        ],
        axum::Json(json!(list)),
    )
        .into_response()
}

/// Sends one half, and the other when it is told to.
async fn halves(State(shared): State<Shared>) -> Body {
    let second = async move {
        shared.go_on.notified().await;
        Ok::<_, std::io::Error>(Bytes::from("second"))
    };
    Body::from_stream(stream::iter([Ok(Bytes::from("first "))]).chain(stream::once(second)))
}

/// Tells the origin's test that the first half has come before the second is sent.
async fn upload(State(shared): State<Shared>, request: Request) -> String {
    let mut body = request.into_body().into_data_stream();
    let mut bytes = 0;
    while let Some(piece) = body.next().await {
        bytes += piece.unwrap().len();
        shared.go_on.notify_one();
    }
    bytes.to_string()
}

/// A waiting room in a temporary directory.
pub(crate) struct Site {
    pub(crate) origin: Origin,
    pub(crate) dir: TempDir,
    arguments: Vec<String>,
}

impl Site {
    /// A room with these settings, in front of an origin.
    pub(crate) async fn new(top: &str, room: &str) -> Self {
        let origin = Origin::start().await;
        let dir = tempfile::tempdir().unwrap();
        let site = Self {
            origin,
            dir,
            arguments: Vec::new(),
        };
        site.write(top, room);
        site
    }

    /// Writes the settings.
    pub(crate) fn write(&self, top: &str, room: &str) {
        let origin = &self.origin.address;
        let text =
            format!("origin = \"http://{origin}\"\n{top}\n[[rooms]]\nname = \"shop\"\n{room}\n");
        std::fs::write(self.dir.path().join("waiting-room.toml"), text).unwrap();
    }

    /// Lets the settings name another origin.
    pub(crate) fn lead_to(&self, address: &str) {
        let path = self.dir.path().join("waiting-room.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace(&self.origin.address, address)).unwrap();
    }

    pub(crate) fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn program(&self) -> Program {
        let mut program = program(&self.data());
        for argument in &self.arguments {
            program = program.arg(argument);
        }
        program
    }

    pub(crate) fn start(&self) -> Server {
        self.program().start()
    }
}

/// `waiting-room serve` on a data directory, with the settings in the same place.
pub(crate) fn program(data: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_waiting-room"), data)
}

/// What an operator sees of the only room.
pub(crate) async fn status(client: &Client) -> Value {
    client.get("/.waiting-room/status").await.body["rooms"][0].clone()
}

/// Waits until a number of the status is this.
pub(crate) async fn until_status(client: &Client, name: &str, number: u64) {
    until(&format!("{name} to be {number}"), async || {
        (status(client).await[name] == number).then_some(())
    })
    .await;
}

/// The minute that a room with minutes of one second is in.
pub(crate) fn second() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// A visitor with a cookie jar for one cookie.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) cookie: Option<String>,
    headers: Vec<(String, String)>,
}

impl Visitor {
    pub(crate) fn new() -> Self {
        Self {
            cookie: None,
            headers: vec![("accept".into(), "application/json".into())],
        }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Asks for a path, with the cookie, and keeps a new one.
    pub(crate) async fn ask(&mut self, client: &Client, path: &str) -> Answer {
        let mut request = http::Request::get(client.url(path));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        let request = request.body(Full::default()).unwrap();
        let answer = client.send(request).await.expect("the server answers");
        if let Some(cookie) = answer.headers.get("set-cookie") {
            let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
            self.cookie = Some(cookie.to_owned());
        }
        answer
    }

    /// True if the application answers.
    pub(crate) async fn enters(&mut self, client: &Client) -> bool {
        let answer = self.ask(client, "/").await;
        let inside = answer.body == WELCOME;
        let waits = matches!(
            answer.body["status"].as_str(),
            Some("queued" | "held" | "full")
        );
        assert!(inside || waits, "{answer:?}");
        inside
    }
}

/// This many visitors come at once; those who are inside and those who wait.
pub(crate) async fn rush(client: &Client, count: usize) -> (Vec<Visitor>, Vec<Visitor>) {
    let coming = (0..count).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut visitor = Visitor::new();
            let enters = visitor.enters(&client).await;
            (visitor, enters)
        })
    });
    let coming = coming.collect::<Vec<_>>();
    let (mut inside, mut waiting) = (Vec::new(), Vec::new());
    for visitor in coming {
        let (visitor, enters) = visitor.await.unwrap();
        if enters {
            inside.push(visitor);
        } else {
            waiting.push(visitor);
        }
    }
    (inside, waiting)
}

/// Between two rounds of looks at a queue.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// A whole body.
pub(crate) async fn text(
    body: impl http_body::Body<Data = Bytes, Error: std::fmt::Debug>,
) -> String {
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}
