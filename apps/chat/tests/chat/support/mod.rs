//! The real binary, and people with WebSockets.

use std::path::Path;

use abide_harness::{Client, Program, Server, in_time, until};
use chat::{Entry, FromClient, ToClient};
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{self, Message, client::IntoClientRequest},
};

/// `chat serve` on a data directory.
pub(crate) fn program(data: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_chat"), data)
}

/// A member of a room.
pub(crate) struct Guest {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Guest {
    /// Comes in; what the room says first has not been heard yet.
    pub(crate) async fn enter(server: &Server, room: &str, name: &str, since: i64) -> Self {
        Self::try_enter(server, room, name, since)
            .await
            .expect("the room lets them in")
    }

    pub(crate) async fn try_enter(
        server: &Server,
        room: &str,
        name: &str,
        since: i64,
    ) -> tungstenite::Result<Self> {
        let address = server.address();
        let url = format!("ws://{address}/rooms/{room}/socket?name={name}&since={since}");
        let (socket, _) = connect_async(url).await?;
        Ok(Self { socket })
    }

    /// Comes in through a trusted proxy that names this address.
    pub(crate) async fn enter_from(server: &Server, room: &str, address: &str) -> Self {
        let url = format!(
            "ws://{}/rooms/{room}/socket?name=ada&since=0",
            server.address()
        );
        let mut request = url.into_client_request().expect("a request");
        let address = address.parse().expect("a header");
        request.headers_mut().insert("x-forwarded-for", address);
        let (socket, _) = connect_async(request).await.expect("the room lets them in");
        Self { socket }
    }

    pub(crate) async fn say(&mut self, text: &str, mark: &str) -> tungstenite::Result<()> {
        let say = FromClient::Say {
            text: text.to_owned(),
            mark: mark.to_owned(),
        };
        let text = serde_json::to_string(&say).expect("plain data");
        self.send(&text).await
    }

    pub(crate) async fn send(&mut self, text: &str) -> tungstenite::Result<()> {
        self.socket.send(Message::text(text)).await
    }

    /// The next text that the room sends; `None` if the line has ended.
    pub(crate) async fn text(&mut self) -> Option<String> {
        let next = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => return Some(text.to_string()),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return None,
                }
            }
        };
        in_time("the room to say something", next).await
    }

    /// The next thing that the room says.
    pub(crate) async fn hear(&mut self) -> Option<ToClient> {
        let text = self.text().await?;
        Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}")))
    }

    /// What the room says first.
    pub(crate) async fn welcome(&mut self) -> (Vec<Entry>, Vec<String>) {
        match self.hear().await {
            Some(ToClient::Welcome { history, present }) => (history, present),
            other => panic!("not a welcome: {other:?}"),
        }
    }

    /// The next message of a member, whatever comes between.
    pub(crate) async fn said(&mut self) -> Entry {
        loop {
            match self.hear().await {
                Some(ToClient::Said(entry)) => return entry,
                Some(_) => {}
                None => panic!("the line has ended"),
            }
        }
    }

    /// Who is there, when the room tells next.
    pub(crate) async fn present(&mut self) -> Vec<String> {
        loop {
            match self.hear().await {
                Some(ToClient::Present { present }) => return present,
                Some(_) => {}
                None => panic!("the line has ended"),
            }
        }
    }

    pub(crate) async fn leave(mut self) {
        let _ = self.socket.close(None).await;
    }
}

/// Waits until no object is in memory.
pub(crate) async fn asleep(admin: &Client) {
    until("the objects to leave memory", async || {
        (admin.metric("abide_objects_resident").await == 0).then_some(())
    })
    .await;
}
