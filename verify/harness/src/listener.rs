//! A TCP listener of a fake: each connection is a task, and all end with the fake.

use std::{future::Future, net::SocketAddr};

use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};

/// Serves connections until it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    task: AbortHandle,
}

impl Listener {
    /// Listens on an address, `127.0.0.1:0` for a free port.
    pub(crate) async fn start<S>(
        address: &str,
        serve: impl Fn(TcpStream) -> S + Send + 'static,
    ) -> Self
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address)
            .await
            .unwrap_or_else(|error| panic!("{address}: {error}"));
        let address = listener.local_addr().expect("a listener has an address");
        let task = tokio::spawn(async move {
            // Dropped with this task, together with the connections.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                // Responses are short, and clients wait for them.
                let _ = stream.set_nodelay(true);
                connections.spawn(serve(stream));
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            task: task.abort_handle(),
        }
    }

    /// The address it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}
