//! The gateway: accepts connections and speaks HTTP/1.1 and HTTP/2 on them.
//!
//! Contract: at most `max_connections` are served at once, and the next one waits in the kernel; each client has its
//! own limit. A client that does not send a request's head in time, has no request on its connection for too long, or
//! stops reading a response, is disconnected (on HTTP/2, the last case resets only the stream); a slow client is not.
//! A client that closes its half of the connection after a request gets its response ([`HalfClose`]), and so does one whose request
//! was refused while it still sends the body ([`Lingering`]).
//! Small responses are not delayed (`TCP_NODELAY`). When told to stop, the gateway accepts nothing more, lets requests
//! in flight finish for the grace period, then closes the remaining connections. HTTP/2 is negotiated by ALPN over TLS,
//! and used with prior knowledge (h2c) without it.
//!
//! The gateway knows nothing of objects: everything that its router's handlers hold has already left an output gate.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use abide_storage::{MemoryAccount, MemoryUse};
use axum::{Router, body::Body, extract::ConnectInfo, response::IntoResponse};
use http::Version;
use http_body::Body as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};
use tower::Service;

use crate::{
    ServerConfig,
    activity::{Activity, Outgoing, StreamExecutor},
    client::{ClientSlot, Clients, proxy_header},
    half_close::{HalfClose, Receiving},
    head::ArrivingHead,
    limits,
    linger::Lingering,
    metric,
    pace::Paced,
    tls::{Stream, Tls},
    websocket::ConnectionHold,
};

/// The slots for open connections.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    most: usize,
    /// The next connection waits for one to close.
    full: AtomicBool,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(most)),
            most,
            full: AtomicBool::new(false),
        })
    }

    /// The number of open connections if no more are accepted; `None` otherwise.
    pub(crate) fn full(&self) -> Option<usize> {
        self.full.load(Ordering::Relaxed).then_some(self.most)
    }

    /// A slot for the next connection. `said` is when it was last logged that there is none.
    async fn take(&self, said: &mut Option<Instant>) -> OwnedSemaphorePermit {
        if let Ok(slot) = Arc::clone(&self.free).try_acquire_owned() {
            // An earlier wait may have been cancelled.
            self.full.store(false, Ordering::Relaxed);
            return slot;
        }
        self.full.store(true, Ordering::Relaxed);
        if is_news(said) {
            tracing::warn!(
                connections = self.most,
                "all server.max_connections connections are in use; the next one waits until one closes"
            );
        }
        let Ok(slot) = Arc::clone(&self.free).acquire_owned().await else {
            // The semaphore is never closed.
            std::future::pending().await
        };
        self.full.store(false, Ordering::Relaxed);
        slot
    }
}

/// A listener and the service behind it.
pub(crate) struct Gateway {
    listener: TcpListener,
    router: Router,
    protocols: auto::Builder<StreamExecutor>,
    timeouts: Timeouts,
    slots: Arc<Slots>,
    clients: Clients,
    tls: Option<Arc<Tls>>,
    memory: Option<Arc<MemoryAccount>>,
    /// When it was last logged that a client has too many connections.
    refused: Arc<Mutex<Option<Instant>>>,
}

/// The time limits for inactive connections.
#[derive(Clone, Copy)]
struct Timeouts {
    header: Duration,
    idle: Duration,
    write: Duration,
}

/// When connection problems were last logged.
#[derive(Default)]
struct Said {
    full: Option<Instant>,
    failed: Option<Instant>,
}

/// The connection under a request, which a WebSocket takes over.
pub(crate) type Served = HalfClose<Paced<Lingering<Stream>>>;

/// Sent to a gateway once: stop, with this grace period for requests in flight.
pub(crate) type StopAfter = Option<Duration>;

impl Gateway {
    pub(crate) fn new(
        listener: TcpListener,
        router: Router,
        config: &ServerConfig,
        slots: Arc<Slots>,
        clients: Clients,
        tls: Option<Arc<Tls>>,
        memory: Option<Arc<MemoryAccount>>,
    ) -> Self {
        let timeouts = Timeouts {
            header: config.header_timeout,
            idle: config.idle_timeout,
            write: config.write_timeout,
        };
        let mut protocols = auto::Builder::new(StreamExecutor {
            patience: timeouts.write,
        });
        protocols
            .http1()
            .timer(TokioTimer::new())
            .max_buf_size(limits::READ_BUFFER_BYTES)
            .header_read_timeout(timeouts.header);
        protocols
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits::MAX_HTTP2_STREAMS)
            .keep_alive_interval(limits::HTTP2_PING)
            .keep_alive_timeout(limits::HTTP2_PING);
        Self {
            listener,
            router,
            protocols,
            timeouts,
            slots,
            clients,
            tls,
            memory,
            refused: Arc::default(),
        }
    }

    /// Serves until `stop` holds a grace period; if the sender of `stop` is gone, there is no grace period.
    pub(crate) async fn run(self, mut stop: watch::Receiver<StopAfter>) {
        let mut connections = JoinSet::new();
        let mut said = Said::default();
        let grace = loop {
            let stopping = stop.clone();
            tokio::select! {
                biased;
                told = stop_requested(&mut stop) => break told,
                Some(_) = connections.join_next() => {}
                accepted = self.accept(&mut said) => {
                    connections.spawn(self.serve(accepted, stopping));
                }
            }
        };
        drop(self.listener);
        let all_end = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all_end).await.is_err() {
            while connections.try_join_next().is_some() {}
            tracing::warn!(
                connections = connections.len(),
                "closing connections that did not finish within the grace period"
            );
        }
        connections.shutdown().await;
    }

    /// Accepts the next connection, with its slots.
    async fn accept(&self, said: &mut Said) -> Accepted {
        loop {
            let slot = self.slots.take(&mut said.full).await;
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let client = if self.clients.begins_with_header(peer.ip()) {
                        None
                    } else {
                        let slot = self.clients.connection(peer.ip());
                        if slot.is_none() {
                            refuse(peer, &self.refused);
                            continue;
                        }
                        slot
                    };
                    // Fails only if the socket is already gone.
                    let _ = stream.set_nodelay(true);
                    set_stall_timeout(&stream, self.timeouts.write);
                    return Accepted {
                        stream,
                        peer,
                        slot,
                        client,
                    };
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    if is_news(&mut said.failed) {
                        tracing::error!(%error, "cannot accept connections; is the limit of open files too low?");
                    }
                    tokio::time::sleep(limits::ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// Serves one connection until it ends.
    fn serve(
        &self,
        accepted: Accepted,
        stop: watch::Receiver<StopAfter>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let memory = self.memory.as_ref();
        let charge =
            memory.map(|memory| memory.charge(MemoryUse::Connections, limits::CONNECTION_BYTES));
        let activity = Activity::new();
        let head = ArrivingHead::new(activity.clone(), memory);
        let (router, clients) = (self.router.clone(), self.clients.clone());
        let (protocols, tls, timeouts) = (self.protocols.clone(), self.tls.clone(), self.timeouts);
        let refused = Arc::clone(&self.refused);
        async move {
            let Accepted {
                mut stream,
                peer,
                slot,
                client,
            } = accepted;
            let (peer, client) = match client {
                Some(client) => (peer, client),
                None => match introduce(&clients, &mut stream, timeouts.header).await {
                    Ok((client, Some(slot))) => (client, slot),
                    Ok((client, None)) => return refuse(client, &refused),
                    Err(error) => {
                        tracing::debug!(%peer, %error, "a proxy did not send a valid PROXY header");
                        return metric::gave_up("proxy_header");
                    }
                },
            };
            let has_request = Arc::new(AtomicBool::new(false));
            let hold = ConnectionHold::new(slot, client, charge);
            let service = {
                let (has_request, hold, activity) =
                    (Arc::clone(&has_request), hold.clone(), activity.clone());
                service_fn(move |request: http::Request<Incoming>| {
                    has_request.store(true, Ordering::Relaxed);
                    let open = activity.begin();
                    let version = request.version();
                    if version < Version::HTTP_2 {
                        activity.set_unread_body(!request.body().is_end_stream());
                    }
                    let admitted = clients.request(peer.ip(), request.headers());
                    let (mut router, hold) = (router.clone(), hold.clone());
                    let receiving = activity.clone();
                    async move {
                        let (client, slot) = match admitted {
                            Ok(admitted) => admitted,
                            Err(refused) => {
                                let response = refused.into_response();
                                return Ok(
                                    response.map(|body| Outgoing::new(body, version, (open, hold)))
                                );
                            }
                        };
                        let hold = hold.with_request(slot);
                        let mut request = request.map(|body| received(body, receiving));
                        request.extensions_mut().insert(ConnectInfo(peer));
                        request.extensions_mut().insert(client);
                        // A WebSocket outlives the task that serves its handshake.
                        request.extensions_mut().insert(hold.clone());
                        let response: Result<_, Infallible> = router.call(request).await;
                        response.map(|response| {
                            response.map(|body| Outgoing::new(body, version, (open, hold)))
                        })
                    }
                })
            };
            let _hold = hold;
            let stream = match tls {
                None => Stream::Plain(stream),
                Some(tls) => match tls.accept(stream, timeouts.header).await {
                    Ok(stream) => stream,
                    Err(error) => {
                        tracing::debug!(%peer, %error, "a TLS handshake failed");
                        return metric::gave_up("tls_handshake");
                    }
                },
            };
            let stream = Paced::new(Lingering::new(stream, activity.clone()), head);
            let stream = HalfClose::new(stream, activity.clone());
            let connection = protocols
                .serve_connection_with_upgrades(TokioIo::new(stream), service)
                .into_owned();
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                ended = connection.as_mut() => return report(peer, ended),
                () = still_silent_after(timeouts.header, &has_request) => {
                    tracing::debug!(%peer, "a connection sent no request in time");
                    return metric::gave_up("silent_connection");
                }
                () = is_stopping(stop) => {}
                () = activity.idle_for(timeouts.idle) => metric::gave_up("idle_connection"),
            }
            // HTTP/2 sends GOAWAY. Requests that the client sent before receiving it are still answered.
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => report(peer, ended),
                () = activity.idle_for(timeouts.write) => {
                    tracing::debug!(%peer, "a connection did not end when it was told to");
                }
            }
        }
    }
}

/// A request's body, for its handler.
fn received(body: Incoming, activity: Activity) -> Body {
    if body.is_end_stream() {
        Body::empty()
    } else {
        Body::new(Receiving::new(body, activity))
    }
}

/// Reads the client's address from a proxy; returns the client's slot, unless it has too many.
async fn introduce(
    clients: &Clients,
    stream: &mut TcpStream,
    patience: Duration,
) -> io::Result<(SocketAddr, Option<ClientSlot>)> {
    let named = tokio::time::timeout(patience, proxy_header::read(stream)).await??;
    let client = named.unwrap_or(proxy_header::UNNAMED);
    Ok((client, clients.connection(client.ip())))
}

/// An accepted connection.
struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    slot: OwnedSemaphorePermit,
    /// The client's slot; `None` if its proxy has not named the client yet.
    client: Option<ClientSlot>,
}

/// Rejects a connection of a client at its limit. `said` is when this was last logged for any client.
fn refuse(client: SocketAddr, said: &Mutex<Option<Instant>>) {
    metric::refused_connection();
    if is_news(&mut said.lock().unwrap_or_else(PoisonError::into_inner)) {
        tracing::warn!(
            client = %client.ip(),
            "a client has reached server.max_connections_per_client; closing further connections"
        );
    }
}

fn report(peer: SocketAddr, ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(%peer, error, "a connection ended early");
    }
}

/// Returns whether it is time to log again, and then records the time.
fn is_news(said: &mut Option<Instant>) -> bool {
    let is_news = said.is_none_or(|at| at.elapsed() >= limits::ACCEPT_LOG);
    if is_news {
        *said = Some(Instant::now());
    }
    is_news
}

/// Makes the kernel break the connection if its peer acknowledges nothing, or has no receive window, for this long.
/// Only the kernel sees what a slow peer takes from the socket buffer; the process is notified when a third of a large
/// buffer is free.
fn set_stall_timeout(stream: &TcpStream, patience: Duration) {
    let millis = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
    // Fails only if the socket is already gone.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, millis);
}

async fn is_stopping(mut stop: watch::Receiver<StopAfter>) {
    // No sender: the gateway's owner is gone.
    let _ = stop.wait_for(Option::is_some).await;
}

async fn stop_requested(stop: &mut watch::Receiver<StopAfter>) -> Duration {
    stop.wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|grace| *grace)
        .unwrap_or_default()
}

/// Completes only if nothing was received for this long. Hyper's own timer starts after it knows the protocol.
async fn still_silent_after(silence: Duration, has_request: &AtomicBool) {
    tokio::time::sleep(silence).await;
    if has_request.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// Returns whether a failure of `accept` concerns the connection rather than the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionRefused | ConnectionAborted | ConnectionReset
    )
}
