//! A small web server: each path answers with what the test says, and every connection is remembered.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

type Answer = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A running server.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// Answers each path with a response that begins with its headers, or with an HTML page.
    pub(crate) async fn start(
        listen: &str,
        answer: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(listen).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let (answer, noted): (Answer, _) = (Arc::new(answer), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, noted) = (Arc::clone(&answer), Arc::clone(&noted));
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                        let mut byte = [0; 1024];
                        match stream.read(&mut byte).await {
                            Ok(read @ 1..) => head.extend(&byte[..read]),
                            _ => break,
                        }
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    noted.lock().expect("no panic").push(path.clone());
                    let answer = answer(&path);
                    let answer = if answer.starts_with("HTTP/") {
                        answer
                    } else {
                        let length = answer.len();
                        format!(
                            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{answer}"
                        )
                    };
                    // The browser may be gone.
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { address, seen }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The paths of all connections, of those too that sent nothing.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no panic").clone()
    }
}

/// A redirect.
pub(crate) fn redirect(to: &str) -> String {
    format!(
        "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
}
