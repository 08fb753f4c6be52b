//! The real binary, and people with WebSockets.

#[path = "../../../../../verify/harness/shared/yjs.rs"]
pub(crate) mod client;

use std::path::Path;

use abide_harness::{Program, Server, in_time};
use client::YjsClient;
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{self, Message, protocol::CloseFrame},
};

/// `rooms serve` on a data directory.
pub(crate) fn program(data: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_rooms"), data)
}

pub(crate) type Line = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A WebSocket of a room, at the address that `partysocket` makes.
pub(crate) async fn connect(
    address: &str,
    party: &str,
    room: &str,
    query: &str,
) -> tungstenite::Result<Line> {
    let url = format!("ws://{address}/parties/{party}/{room}?{query}");
    Ok(connect_async(url).await?.0)
}

/// The close that comes, after whatever was said before.
pub(crate) async fn closed(line: &mut Line) -> CloseFrame {
    let close = async {
        loop {
            match line.next().await {
                Some(Ok(Message::Close(Some(close)))) => return close,
                Some(Ok(_)) => {}
                other => panic!("no close, but {other:?}"),
            }
        }
    };
    in_time("a close", close).await
}

/// The next text.
pub(crate) async fn text(line: &mut Line) -> String {
    let text = async {
        loop {
            match line.next().await {
                Some(Ok(Message::Text(text))) => return text.to_string(),
                Some(Ok(_)) => {}
                other => panic!("no text, but {other:?}"),
            }
        }
    };
    in_time("a text", text).await
}

/// An editor of a document.
pub(crate) struct Editor {
    pub(crate) client: YjsClient,
    pub(crate) line: Option<Line>,
    /// Texts of the program that were heard.
    pub(crate) marks: usize,
}

impl Editor {
    pub(crate) fn offline(id: u64) -> Self {
        Self {
            client: YjsClient::new(id),
            line: None,
            marks: 0,
        }
    }

    pub(crate) async fn connect(server: &Server, room: &str, id: u64) -> Self {
        let mut editor = Self::offline(id);
        editor.reconnect(server.address(), room).await;
        editor
    }

    /// Connects, says what clients say first, and waits until it is answered and what was written offline is on disk.
    pub(crate) async fn reconnect(&mut self, address: &str, room: &str) {
        let query = format!("_pk=editor-{}", self.client.id());
        let line = connect(address, "main", room, &query).await;
        self.line = Some(line.expect("the room takes them"));
        let hello = self.client.hello();
        assert!(self.say(hello).await);
        while !self.client.is_synced {
            assert!(self.hear().await, "the line has ended");
        }
        assert!(self.settle().await);
    }

    /// False if the line has ended.
    pub(crate) async fn say(&mut self, message: Vec<u8>) -> bool {
        match &mut self.line {
            Some(line) => line.send(Message::binary(message)).await.is_ok(),
            None => false,
        }
    }

    /// Hears one frame, and answers it; false if the line has ended.
    pub(crate) async fn hear(&mut self) -> bool {
        let Some(line) = &mut self.line else {
            return false;
        };
        match in_time("the room to say something", line.next()).await {
            Some(Ok(Message::Binary(frame))) => {
                for answer in self.client.hear(&frame) {
                    self.say(answer).await;
                }
                true
            }
            Some(Ok(Message::Text(_))) => {
                self.marks += 1;
                true
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => false,
            Some(Ok(_)) => true,
        }
    }

    /// Waits until everything that it said is on disk, and it has heard what others said before; false if the line has ended.
    pub(crate) async fn settle(&mut self) -> bool {
        let before = self.marks;
        let Some(line) = &mut self.line else {
            return false;
        };
        if line.send(Message::text("__YPS:mark")).await.is_err() {
            return false;
        }
        while self.marks == before {
            if !self.hear().await {
                return false;
            }
        }
        true
    }

    pub(crate) async fn insert(&mut self, at: u32, text: &str) -> bool {
        let update = self.client.insert(at, text);
        self.say(update).await
    }
}
