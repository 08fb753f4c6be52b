//! The real binary as a child process, and an HTTP client for it.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client as HyperClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A running `flight-seating serve`. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// Kept open, so that the server never writes to a closed pipe.
    _stdout: BufReader<ChildStdout>,
    pub(crate) address: String,
    pub(crate) admin: String,
}

/// A command for the binary with a data directory, free ports and no settings from this machine.
pub(crate) fn command(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flight-seating"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .env("ABIDE__ADMIN__LISTEN", "127.0.0.1:0")
        .current_dir(data.parent().expect("a data directory lies in a directory"))
        .stdin(Stdio::null());
    command
}

impl Server {
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// Starts with environment variables; returns when it serves.
    pub(crate) fn start_with(data: &Path, variables: &[(&str, &str)]) -> Self {
        let mut child = command(data)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut line = |intro: &str| {
            let mut text = String::new();
            stdout
                .read_line(&mut text)
                .expect("the server prints lines");
            text.trim()
                .strip_prefix(intro)
                .unwrap_or_else(|| panic!("expected {intro:?}, got {text:?}"))
                .to_owned()
        };
        let address = line("listening on http://");
        let admin = line("health and metrics on http://");
        Self {
            child,
            _stdout: stdout,
            address,
            admin,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.address, Version::Http1)
    }

    pub(crate) fn http2_client(&self) -> Client {
        Client::new(&self.address, Version::Http2)
    }

    pub(crate) fn admin_client(&self) -> Client {
        Client::new(&self.admin, Version::Http1)
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server is reaped");
    }

    /// SIGTERM, and wait for the end.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("the server can be signalled");
        self.child.wait().expect("the server is reaped")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command that is expected to refuse; its exit status and what it said on standard error.
pub(crate) fn refused(mut command: Command) -> (ExitStatus, String) {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut said = String::new();
    child
        .stderr
        .take()
        .expect("stderr is piped")
        .read_to_string(&mut said)
        .expect("stderr is text");
    (child.wait().expect("the process is reaped"), said)
}

#[derive(Clone, Copy)]
pub(crate) enum Version {
    Http1,
    Http2,
}

/// An answer: its status, its headers, its body as JSON (or a JSON string of its text).
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The `code` of an error answer.
    pub(crate) fn code(&self) -> &str {
        assert!(
            self.body["error"]["message"]
                .as_str()
                .is_some_and(|text| text.ends_with('.')),
            "{self:?}"
        );
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    /// Who sits in a seat, from a seat map.
    pub(crate) fn occupant(&self, seat: &str) -> Option<&str> {
        let seats = self.body["seats"].as_array().expect("a seat map");
        let found = seats
            .iter()
            .find(|entry| entry["seat"] == seat)
            .expect("the seat exists");
        found["occupant"].as_str()
    }
}

type Broken = Box<dyn std::error::Error + Send + Sync>;

/// An HTTP client of one address. Clones share its connections.
#[derive(Clone)]
pub(crate) struct Client {
    inner: HyperClient<HttpConnector, Full<Bytes>>,
    base: Arc<str>,
}

impl Client {
    pub(crate) fn new(address: &str, version: Version) -> Self {
        let mut builder = HyperClient::builder(TokioExecutor::new());
        builder.http2_only(matches!(version, Version::Http2));
        Self {
            inner: builder.build_http(),
            base: format!("http://{address}").into(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, "").await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::PUT, path, &body.to_string()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::POST, path, &body.to_string()).await
    }

    /// Any method, any text.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: &str) -> Answer {
        self.try_ask(method, path, body)
            .await
            .expect("the server answers")
    }

    pub(crate) async fn try_ask(
        &self,
        method: Method,
        path: &str,
        body: &str,
    ) -> Result<Answer, Broken> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base));
        self.send(request.body(Full::from(body.to_owned()))?).await
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, Broken> {
        let (parts, body) = self.inner.request(request).await?.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}
