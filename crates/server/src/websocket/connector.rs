//! WebSockets that objects open to other servers.
//!
//! Contract: only addresses permitted by the policy for outgoing requests are connected to; `wss://` requires a
//! certificate that the machine trusts. Connection and handshake share [`CONNECT_TIMEOUT`] and run on the program's
//! async runtime, not on the object's thread; if the caller stops waiting, the connection is closed.

use abide_runtime::{
    Error, ErrorKind, Result,
    socket::{ConnectedWebSocket, Connecting, WebSocketConnector},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{runtime::Handle, sync::oneshot};
use tungstenite::handshake::{client::generate_key, derive_accept_key};

use super::{Hub, Role, handshake, hub::Member, pump::Pump};
use crate::{
    limits::CONNECT_TIMEOUT,
    outbound::{self, Stream, causes, policy::AddressPolicy},
};

/// Opens WebSockets for the objects of one host.
#[derive(Clone)]
pub(crate) struct Connector {
    hub: Hub,
    connections: outbound::Connector,
    runtime: Handle,
}

impl Connector {
    pub(crate) fn new(hub: Hub, policy: AddressPolicy, runtime: Handle) -> Self {
        Self {
            hub,
            // HTTP/2 has no WebSockets without an extension.
            connections: outbound::Connector::new(policy, &["http/1.1"]),
            runtime,
        }
    }
}

impl WebSocketConnector for Connector {
    fn connect(&self, request: Request<()>) -> Connecting {
        let (answer, answered) = oneshot::channel();
        let connector = self.clone();
        self.runtime.spawn(async move {
            let opening = tokio::time::timeout(CONNECT_TIMEOUT, connector.open(request));
            let opened = opening.await.unwrap_or_else(|_| {
                Err(Error::with_kind(
                    ErrorKind::Timeout,
                    format!(
                        "the WebSocket was not opened within {} s",
                        CONNECT_TIMEOUT.as_secs()
                    ),
                ))
            });
            // If the caller is gone, the connection is dropped.
            drop(answer.send(opened));
        });
        Box::pin(async move {
            answered.await.unwrap_or_else(|_| {
                Err(Error::with_kind(
                    ErrorKind::Unavailable,
                    "the program is stopping: no more WebSockets are opened",
                ))
            })
        })
    }
}

impl Connector {
    async fn open(self, request: Request<()>) -> Result<ConnectedWebSocket> {
        let target = Target::of(request.uri())?;
        let connected = self.connections.connect(&target.uri).await;
        let stream = connected.map_err(|error| target.failed(&*error))?;
        self.shake_hands(stream, &target, request).await
    }

    /// The opening handshake (RFC 6455, section 4.1).
    async fn shake_hands(
        self,
        stream: Stream,
        target: &Target,
        request: Request<()>,
    ) -> Result<ConnectedWebSocket> {
        let key = generate_key();
        let offered = offer(&request, target, &key)?;
        let (mut sender, connection) = http1::handshake(stream)
            .await
            .map_err(|error| target.failed(&error))?;
        let driving = tokio::spawn(connection.with_upgrades());
        let response = sender
            .send_request(offered)
            .await
            .map_err(|error| target.failed(&error))?;
        check(&response, request.headers(), &key).map_err(|what| target.refused(&what))?;
        let headers = response.headers().clone();
        let upgraded = hyper::upgrade::on(response)
            .await
            .map_err(|error| target.failed(&error))?;
        let _ = driving.await;
        let parts = upgraded.downcast::<Stream>().map_err(|_| {
            Error::with_kind(
                ErrorKind::Io,
                "unexpected connection type after the upgrade",
            )
        })?;
        let (stream, early) = (
            TokioIo::new(parts.io),
            Bytes::copy_from_slice(&parts.read_buf),
        );
        let hub = self.hub;
        Ok(ConnectedWebSocket {
            headers,
            serve: Box::new(move |endpoint| {
                let keep_alive = hub.keep_alive();
                hub.spawn(endpoint.handle(), move |member: Member| async move {
                    let _member = member;
                    Pump::new(Role::Client, stream, early, endpoint, keep_alive).await;
                });
            }),
        })
    }
}

/// The target of a WebSocket.
struct Target {
    uri: Uri,
}

impl Target {
    fn of(uri: &Uri) -> Result<Self> {
        let is_websocket = matches!(uri.scheme_str(), Some("ws" | "wss"));
        if !is_websocket || uri.host().is_none_or(str::is_empty) {
            return Err(Error::with_kind(
                ErrorKind::Input,
                format!("`{uri}` is not a WebSocket URL: it must begin with ws:// or wss://"),
            ));
        }
        Ok(Self { uri: uri.clone() })
    }

    fn refused(&self, why: &str) -> Error {
        Error::with_kind(
            ErrorKind::Io,
            format!("the WebSocket to {} was not opened: {why}", self.uri),
        )
    }

    fn failed(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        self.refused(&causes(error))
    }
}

/// The request that offers the upgrade. It includes the user's headers, except those of the handshake itself.
fn offer(request: &Request<()>, target: &Target, key: &str) -> Result<Request<Empty<Bytes>>> {
    let path = request.uri().path_and_query();
    let mut offered = Request::builder()
        .method(Method::GET)
        .uri(path.map_or("/", |path| path.as_str()))
        .body(Empty::new())?;
    let headers = offered.headers_mut();
    headers.clone_from(request.headers());
    headers.remove(header::SEC_WEBSOCKET_EXTENSIONS);
    let host = target.uri.authority().map_or("", |authority| {
        // The part before `@` is a password; it belongs in a header set by the user.
        authority.as_str().rsplit('@').next().unwrap_or_default()
    });
    for (name, value) in [
        (header::HOST, host),
        (header::UPGRADE, "websocket"),
        (header::CONNECTION, "Upgrade"),
        (header::SEC_WEBSOCKET_VERSION, handshake::VERSION),
        (header::SEC_WEBSOCKET_KEY, key),
    ] {
        let value = HeaderValue::try_from(value).map_err(http::Error::from)?;
        headers.insert(name, value);
    }
    Ok(offered)
}

/// Checks that the response opens a WebSocket according to the protocol; returns what is wrong with it otherwise.
fn check(response: &Response<Incoming>, asked: &HeaderMap, key: &str) -> Result<(), String> {
    let (status, headers) = (response.status(), response.headers());
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(format!("the server answered {status}"));
    }
    let accept = headers.get(header::SEC_WEBSOCKET_ACCEPT);
    if !handshake::upgrades(headers)
        || accept
            .is_none_or(|accept| accept.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes())
    {
        return Err("the server's response violates the WebSocket protocol".to_owned());
    }
    if headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS) {
        return Err("the server uses an extension that was not offered".to_owned());
    }
    if let Some(chosen) = headers.get(header::SEC_WEBSOCKET_PROTOCOL) {
        let chosen = chosen.to_str().unwrap_or_default();
        if !handshake::has_token(asked, &header::SEC_WEBSOCKET_PROTOCOL, chosen) {
            return Err(format!(
                "the server chose the subprotocol `{}`, which was not offered",
                chosen.escape_debug()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_websocket_url_is_an_address() {
        for uri in ["ws://example.com/x", "wss://[::1]:8080"] {
            assert!(Target::of(&uri.parse().unwrap()).is_ok(), "{uri}");
        }
        for uri in ["http://example.com/", "/path", "example.com:80"] {
            let error = Target::of(&uri.parse().unwrap()).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Input, "{uri}");
        }
    }

    #[test]
    fn a_user_s_headers_go_along_and_cannot_replace_the_handshake_s() {
        let request = Request::builder()
            .uri("ws://user:secret@example.com:81/a?b=c")
            .header("authorization", "Bearer x")
            .header("connection", "close")
            .header("sec-websocket-key", "mine")
            .header("sec-websocket-protocol", "chat")
            .header("sec-websocket-extensions", "permessage-deflate")
            .body(())
            .unwrap();
        let target = Target::of(request.uri()).unwrap();
        let offered = offer(&request, &target, "key").unwrap();
        assert_eq!(offered.uri(), "/a?b=c");
        let headers = offered.headers();
        for (name, value) in [
            ("host", "example.com:81"),
            ("authorization", "Bearer x"),
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "key"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "chat"),
        ] {
            assert_eq!(headers[name], value);
        }
        assert!(!headers.contains_key("sec-websocket-extensions"));
    }
}
