//! Upgrades the connection of a response that carries a client's end.

use std::sync::Arc;

use abide_runtime::socket::{ClientSocket, CloseFrame, Endpoint, EndpointHandle, code};
use abide_storage::MemoryCharge;
use axum::{
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use bytes::Bytes;
use futures_util::future::Either;
use http::{HeaderValue, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::{rt::TokioIo, server::conn::auto::upgrade::downcast};
use tokio::sync::OwnedSemaphorePermit;

use super::{Hub, Role, handshake, hub::Member, pump::Pump};
use crate::{ApiError, access::Lease, client::ClientSlot, gateway::Served, limits, metric};

/// Resources that a gateway connection holds while it is open. A request finds it in its extensions.
#[derive(Clone)]
pub(crate) struct ConnectionHold {
    _connection: Arc<Held>,
    /// The request's slot among those of its client.
    _request: Option<Arc<ClientSlot>>,
}

struct Held {
    _slot: OwnedSemaphorePermit,
    _client: ClientSlot,
    _open: metric::OpenConnection,
    _memory: Option<MemoryCharge>,
}

impl ConnectionHold {
    pub(crate) fn new(
        slot: OwnedSemaphorePermit,
        client: ClientSlot,
        memory: Option<MemoryCharge>,
    ) -> Self {
        Self {
            _connection: Arc::new(Held {
                _slot: slot,
                _client: client,
                _open: metric::OpenConnection::new(),
                _memory: memory,
            }),
            _request: None,
        }
    }

    /// The same, for one request.
    pub(crate) fn with_request(&self, slot: Option<ClientSlot>) -> Self {
        Self {
            _request: slot.map(Arc::new),
            ..self.clone()
        }
    }
}

/// Wraps a user's router with the upgrade.
pub(crate) fn upgrading(router: axum::Router, hub: Hub) -> axum::Router {
    router.layer(middleware::from_fn_with_state(hub, upgrade))
}

/// The parts of a request that are needed if it becomes a WebSocket.
struct UpgradeRequest {
    /// Also left in the request: a handler may serve WebSockets itself.
    connection: Option<OnUpgrade>,
    accept: Result<HeaderValue, ApiError>,
    hold: Option<ConnectionHold>,
}

impl UpgradeRequest {
    fn of(request: &Request) -> Self {
        let extensions = request.extensions();
        Self {
            connection: extensions.get().cloned(),
            accept: handshake::accept_key(request.method(), request.headers()),
            hold: extensions.get().cloned(),
        }
    }
}

async fn upgrade(State(hub): State<Hub>, request: Request, next: Next) -> Response {
    let requested = UpgradeRequest::of(&request);
    let mut response = next.run(request).await;
    let Some(client) = response.extensions_mut().remove::<ClientSocket>() else {
        return response;
    };
    match switch(&hub, requested, client, &mut response) {
        Ok(()) => response,
        Err(error) => handshake::refusal(error),
    }
}

/// Turns the response into a 101 and serves the connection once it is upgraded. A socket whose upgrade fails ends.
fn switch(
    hub: &Hub,
    requested: UpgradeRequest,
    client: ClientSocket,
    response: &mut Response,
) -> Result<(), ApiError> {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        // The handler did not open a WebSocket; its response goes to the client.
        return Ok(());
    }
    let accept = requested.accept?;
    let connection = requested.connection.ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            "websocket_unavailable",
            "WebSockets are served over HTTP/1.1 connections only.",
        )
    })?;
    let endpoint = client.claim().map_err(|error| {
        tracing::error!(%error, "cannot serve a WebSocket; responded with 500");
        ApiError::bare(StatusCode::INTERNAL_SERVER_ERROR)
    })?;
    handshake::put_headers(response.headers_mut(), accept);
    response.headers_mut().remove(header::CONTENT_LENGTH);
    let keep_alive = hub.keep_alive();
    let hold = requested.hold;
    let lease = response.extensions_mut().remove::<Lease>();
    hub.spawn(endpoint.handle(), move |member: Member| async move {
        let _kept = (hold, member);
        let handle = endpoint.handle();
        match connection.await {
            Ok(upgraded) => tokio::select! {
                () = serve(upgraded, endpoint, keep_alive) => {}
                () = end_with(lease, handle) => {}
            },
            // The client disconnected before receiving the response.
            Err(error) => tracing::debug!(%error, "a WebSocket was not upgraded"),
        }
    });
    Ok(())
}

/// Closes the socket when its token is no longer valid. Returns once the peer has had time to learn of it.
async fn end_with(lease: Option<Lease>, socket: EndpointHandle) {
    match lease {
        None => std::future::pending().await,
        Some(lease) => lease.ended().await,
    }
    socket.close(CloseFrame::of(
        code::POLICY_VIOLATION,
        "the token is no longer valid",
    ));
    tokio::time::sleep(limits::ENDED_TOKEN_GRACE).await;
}

/// Not `async`: its locals would take memory for every idle socket.
fn serve(
    upgraded: Upgraded,
    endpoint: Endpoint,
    keep_alive: super::KeepAlive,
) -> impl Future<Output = ()> {
    // Down to the bare connection, without the wrappers of hyper and of the gateway.
    match downcast::<TokioIo<Served>>(upgraded) {
        Ok(parts) => {
            let stream = parts.io.into_inner().into_inner().into_inner().into_inner();
            let early = Bytes::copy_from_slice(&parts.read_buf);
            Either::Left(Pump::new(Role::Server, stream, early, endpoint, keep_alive))
        }
        Err(upgraded) => {
            let stream = TokioIo::new(upgraded);
            let early = Bytes::new();
            Either::Right(Pump::new(Role::Server, stream, early, endpoint, keep_alive))
        }
    }
}
