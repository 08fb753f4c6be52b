//! Hosts and clients for the tests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use abide::{
    Host,
    http::StatusCode,
    outbox::handlers::Secret,
    server::HostBuilder,
    testing::{Servers, TestClock},
};
use futures_util::StreamExt;
use help_desk::{Hook, Settings, install};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, tungstenite::Message};

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const HOOK: &str = "https://hooks.example.com/closed";

/// A ticket is escalated after an hour; an address may write 3 times at once, and once in 10 s.
pub(crate) fn settings() -> Settings {
    Settings {
        escalate_after: Duration::from_hours(1),
        write_every: Duration::from_secs(10),
        write_burst: 3,
        hook: Some(Hook {
            url: HOOK.to_owned(),
            secret: SECRET.parse::<Secret>().expect("a secret"),
        }),
    }
}

/// The program in memory, with a clock and a receiver of webhooks that the test controls.
pub(crate) fn in_memory(clock: &TestClock, servers: &Servers) -> HostBuilder {
    install(Host::open_in_memory(), settings())
        .clock(Arc::new(clock.clone()))
        .outbound(Arc::new(servers.clone()))
}

/// The world outside, which answers like this, and then with 204.
pub(crate) fn answering(answers: impl IntoIterator<Item = StatusCode>) -> Servers {
    let servers = Servers::new();
    answers.into_iter().for_each(|answer| servers.next(answer));
    servers
}

/// Asks until the answer is `Some`. The node works on its own threads, so a test cannot know when it is done.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(Instant::now() < deadline, "timed out: {what}");
        tokio::task::yield_now().await;
    }
}

/// A live view.
pub(crate) struct View(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl View {
    pub(crate) async fn open(address: impl std::fmt::Display, desk: &str) -> Self {
        let url = format!("ws://{address}/desks/{desk}/live");
        let (socket, _) = tokio_tungstenite::connect_async(url)
            .await
            .expect("a live view");
        Self(socket)
    }

    /// The next event; `None` if the desk has closed the view.
    pub(crate) async fn event(&mut self) -> Option<Value> {
        let next = tokio::time::timeout(Duration::from_mins(1), self.0.next());
        match next
            .await
            .expect("an event in time")?
            .expect("an open socket")
        {
            Message::Text(text) => Some(serde_json::from_str(&text).expect("JSON")),
            Message::Close(_) => None,
            other => panic!("a live view got {other:?}"),
        }
    }
}
