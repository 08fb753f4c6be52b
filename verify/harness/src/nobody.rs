//! An address where nothing listens.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A local port that refuses connections, and that no other process can take while this exists.
#[derive(Debug)]
pub struct Nobody {
    /// Bound, but not listening.
    _socket: TcpSocket,
    address: SocketAddr,
}

impl Nobody {
    /// Takes a free port. Call it inside a tokio runtime.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        Self {
            _socket: socket,
            address,
        }
    }

    /// Host and port.
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Default for Nobody {
    fn default() -> Self {
        Self::new()
    }
}
