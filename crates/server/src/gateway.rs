//! The gateway: accepts connections and speaks HTTP/1.1 and HTTP/2 on them.
//!
//! Contract: at most `max_connections` are served at once, the next waits in the kernel; a client that does not send a
//! request's head in time loses its connection; small answers are not held back (`TCP_NODELAY`). When told to stop it
//! accepts nothing more, lets requests in flight finish for the grace that it was given, then closes what is left. HTTP/2
//! comes with prior knowledge (h2c); there is no TLS, which is a proxy's work.
//!
//! The gateway knows nothing of objects: what its router's handlers hold has already left an output gate.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use abide_storage::{MemoryAccount, MemoryUse};
use axum::{Router, body::Body, extract::ConnectInfo};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};
use tower::Service;

use crate::{ServerConfig, limits, websocket::ConnectionHold};

/// A listener and what answers on it.
pub(crate) struct Gateway {
    listener: TcpListener,
    router: Router,
    protocols: auto::Builder<TokioExecutor>,
    header_timeout: Duration,
    slots: Arc<Semaphore>,
    memory: Option<Arc<MemoryAccount>>,
}

/// Told to a gateway once: stop, and give requests in flight this long.
pub(crate) type StopAfter = Option<Duration>;

impl Gateway {
    pub(crate) fn new(
        listener: TcpListener,
        router: Router,
        config: &ServerConfig,
        memory: Option<Arc<MemoryAccount>>,
    ) -> Self {
        let mut protocols = auto::Builder::new(TokioExecutor::new());
        protocols
            .http1()
            .timer(TokioTimer::new())
            .max_buf_size(limits::READ_BUFFER_BYTES)
            .header_read_timeout(config.header_timeout);
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
            header_timeout: config.header_timeout,
            slots: Arc::new(Semaphore::new(config.max_connections)),
            memory,
        }
    }

    /// Serves until `stop` holds a grace; a `stop` whose sender is gone means no grace.
    pub(crate) async fn run(self, mut stop: watch::Receiver<StopAfter>) {
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut said = None;
        let grace = loop {
            tokio::select! {
                biased;
                told = told_to_stop(&mut stop) => break told,
                Some(_) = connections.join_next() => {}
                (stream, peer, slot) = self.accept(&mut said) => {
                    connections.spawn(self.serve(stream, peer, slot, &graceful));
                }
            }
        };
        drop(self.listener);
        let mut finished = std::pin::pin!(tokio::time::timeout(grace, graceful.shutdown()));
        if finished.as_mut().await.is_err() {
            while connections.try_join_next().is_some() {}
            tracing::warn!(
                connections = connections.len(),
                "closing connections that did not finish within the grace"
            );
        }
        connections.shutdown().await;
    }

    /// The next connection, with a slot of the connection cap.
    /// `said` is when the log last said that there is none.
    async fn accept(
        &self,
        said: &mut Option<Instant>,
    ) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
        loop {
            let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
                // The semaphore is never closed.
                std::future::pending().await
            };
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Refused only for a socket that is already gone.
                    let _ = stream.set_nodelay(true);
                    return (stream, peer, slot);
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    let is_news = said.is_none_or(|at| at.elapsed() >= limits::ACCEPT_FAILURE_LOG);
                    if is_news {
                        *said = Some(Instant::now());
                        tracing::error!(%error, "cannot accept connections; is the limit of open files too low?");
                    }
                    tokio::time::sleep(limits::ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// Serves one connection to its end.
    fn serve(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        slot: OwnedSemaphorePermit,
        graceful: &GracefulShutdown,
    ) -> impl Future<Output = ()> + Send + use<> {
        let heard = Arc::new(AtomicBool::new(false));
        let memory = self.memory.as_ref();
        let charge =
            memory.map(|memory| memory.charge(MemoryUse::Connections, limits::CONNECTION_BYTES));
        let hold = ConnectionHold::new(slot, charge);
        let service = {
            let (router, heard, hold) = (self.router.clone(), Arc::clone(&heard), hold.clone());
            service_fn(move |request: http::Request<Incoming>| {
                heard.store(true, Ordering::Relaxed);
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(ConnectInfo(peer));
                // A WebSocket outlives what serves its handshake.
                request.extensions_mut().insert(hold.clone());
                router.clone().call(request)
            })
        };
        let connection = self
            .protocols
            .serve_connection_with_upgrades(TokioIo::new(stream), service);
        let connection = graceful.watch(connection.into_owned());
        let silence = self.header_timeout;
        async move {
            let _hold = hold;
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%peer, error, "a connection ended early");
                },
                () = still_silent_after(silence, &heard) => {
                    tracing::debug!(%peer, "a connection sent no request in time");
                }
            }
        }
    }
}

async fn told_to_stop(stop: &mut watch::Receiver<StopAfter>) -> Duration {
    stop.wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|grace| *grace)
        .unwrap_or_default()
}

/// Ends only if nothing was heard for this long. Hyper's own timer starts after it knows the protocol.
async fn still_silent_after(silence: Duration, heard: &AtomicBool) {
    tokio::time::sleep(silence).await;
    if heard.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// True for failures of `accept` that concern the connection, not the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionRefused | ConnectionAborted | ConnectionReset
    )
}
