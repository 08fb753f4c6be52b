//! An HTTP client for tests: one connection for each request.

use std::net::SocketAddr;

use axum::body::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// An answer, its body as text.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// Sends a request without a body.
pub(crate) async fn ask(addr: SocketAddr, method: Method, path: &str) -> Answer {
    send(addr, method, path, Vec::new()).await
}

/// Asks the admin listener to change something.
pub(crate) async fn change(addr: SocketAddr, path: &str) -> Answer {
    change_to(addr, path, "").await
}

/// Asks the admin listener to change something, and says how in JSON.
pub(crate) async fn change_to(addr: SocketAddr, path: &str, body: impl ToString) -> Answer {
    let request =
        Request::post(format!("http://{addr}{path}")).header("content-type", "application/json");
    let body = Full::from(body.to_string());
    self::request(request.body(body).expect("a request")).await
}

/// Sends a request whose body, if it has one, says that it is JSON.
pub(crate) async fn send(addr: SocketAddr, method: Method, path: &str, body: Vec<u8>) -> Answer {
    let request = Request::builder()
        .method(method)
        .header("content-type", "application/json")
        .uri(format!("http://{addr}{path}"));
    self::request(request.body(Full::from(body)).expect("a request")).await
}

pub(crate) async fn request(request: Request<Full<Bytes>>) -> Answer {
    answered(request).await.expect("the host answers")
}

/// The answer, unless the host closes the connection first.
pub(crate) async fn answered(request: Request<Full<Bytes>>) -> Option<Answer> {
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let (parts, body) = client.request(request).await.ok()?.into_parts();
    let bytes = body.collect().await.expect("a whole body").to_bytes();
    let body = String::from_utf8(bytes.to_vec()).expect("text");
    Some(Answer {
        status: parts.status,
        headers: parts.headers,
        body,
    })
}

/// The code of an error answer.
pub(crate) fn code(answer: &Answer) -> String {
    let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
    body["error"]["code"]
        .as_str()
        .unwrap_or_else(|| panic!("no code in {answer:?}"))
        .to_owned()
}

/// Opens a connection and sends the beginning of something.
pub(crate) async fn connect(addr: SocketAddr, beginning: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.expect("the host accepts");
    stream
        .write_all(beginning.as_bytes())
        .await
        .expect("the host reads");
    stream
}

/// Whatever comes until the other side closes, or breaks, the connection.
pub(crate) async fn read_to_end(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Breaks the connection. If it were closed, the other side could not tell it from one whose client still reads.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().expect("the connection is open");
    drop(stream);
}
