//! A node on a disk in memory whose objects are documents, and clients of them.

use std::task::Poll;

use abide::{
    NodeBuilder,
    party::{self, Room},
    prelude::*,
    socket::{ClientSocket, CloseFrame, Endpoint, Frame},
    storage::{MemoryUse, SimDisk},
    yjs::{self, Document, DocumentOptions, Received, Size, yrs},
};
use abide_harness::in_time;
use yrs::{GetString, Text, Transact};

use crate::{
    world::{self, Setup},
    yjs::client::YjsClient,
};

/// How documents are kept in a test.
#[derive(Clone, Copy, Default)]
pub(crate) struct Settings(pub(crate) DocumentOptions);

#[durable_object]
pub(crate) struct Pad {
    ctx: Ctx,
    room: Room,
    document: Document,
}

impl DurableObject for Pad {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let room = Room::open(&ctx, party::RoomOptions::default())?;
        let document = Document::open(&ctx, &room, env.require::<Settings>()?.0)?;
        Ok(Self {
            ctx,
            room,
            document,
        })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let is_reader = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("reader"));
        let tags: &[&str] = if is_reader { &["reader"] } else { &[] };
        let (connection, response) = self.room.connect(&request, tags)?;
        if connection.tags().contains(&"reader".to_owned()) {
            self.document.connect_read_only(&connection).await?;
        } else {
            self.document.connect(&connection).await?;
        }
        Ok(response)
    }

    async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        let connection = self.room.connection(&ws)?;
        if let Received::Custom(text) = self.document.receive(&connection, &message).await? {
            connection.send(yjs::custom_message(&format!("{text}!")))?;
        }
        Ok(())
    }

    async fn websocket_close(&self, ws: WebSocket, _: Close) -> Result<()> {
        self.document.disconnect(&self.room.connection(&ws)?)
    }
}

#[rpc]
impl Pad {
    pub async fn size(&self) -> Result<Size> {
        self.document.size().await
    }

    pub async fn compact(&self) -> Result<Size> {
        self.document.compact().await
    }

    /// Bytes of the rows, and their number.
    pub async fn stored(&self) -> Result<(u64, u64)> {
        let sum = "SELECT coalesce(sum(length(data)), 0), count(*) FROM yjs_updates";
        self.ctx.sql().exec(sum, ())?.one()
    }

    pub async fn database_size(&self) -> Result<u64> {
        self.ctx.sql().database_size()
    }

    /// The text as the server has it.
    pub async fn text(&self) -> Result<String> {
        let read = |doc: &yrs::Doc| {
            let text = doc.get_or_insert_text("content");
            text.get_string(&doc.transact())
        };
        self.document.read(read).await
    }

    /// Writes at the beginning of the text, from here.
    pub async fn prepend(&self, text: String) -> Result<()> {
        let content = |doc: &yrs::Doc| doc.get_or_insert_text("content");
        let content = self.document.read(content).await?;
        let insert =
            |transaction: &mut yrs::TransactionMut<'_>| content.insert(transaction, 0, &text);
        self.document.transact(insert).await
    }

    /// Changes the tables behind the document's back.
    pub async fn tamper(&self, sql: String) -> Result<()> {
        self.ctx.sql().exec(&sql, ()).map(drop)
    }
}

impl Setup for Settings {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        node.class::<Pad>(ClassOptions::default()).with(*self)
    }
}

pub(crate) type World = world::World<Settings>;

impl World {
    pub(crate) fn new() -> Self {
        Self::with(DocumentOptions::default())
    }

    pub(crate) fn with(options: DocumentOptions) -> Self {
        Self::of(Settings(options))
    }

    pub(crate) fn pad(&self) -> Stub<Pad> {
        self.stub("pad")
    }

    /// Bytes that are charged for objects.
    pub(crate) fn objects_bytes(&self) -> u64 {
        let usage = self.node.store().memory().usage();
        let objects = usage.iter().find(|of| of.used_for == MemoryUse::Objects);
        objects.unwrap().bytes
    }

    pub(crate) async fn size(&self) -> Size {
        self.pad().size().await.unwrap()
    }

    pub(crate) async fn text(&self) -> String {
        self.pad().text().await.unwrap()
    }
}

/// A client with a connection.
pub(crate) struct Peer {
    pub(crate) client: YjsClient,
    socket: Option<Endpoint>,
    /// Texts of the program that were heard.
    pub(crate) texts: Vec<String>,
}

impl Peer {
    pub(crate) async fn connect(world: &World, id: u64) -> Self {
        let mut peer = Self::new(id);
        peer.reconnect(world).await;
        peer
    }

    /// Without a connection.
    pub(crate) fn new(id: u64) -> Self {
        Self {
            client: YjsClient::new(id),
            socket: None,
            texts: Vec::new(),
        }
    }

    /// Connects, says what clients say first, and waits until it is answered.
    pub(crate) async fn reconnect(&mut self, world: &World) {
        self.open(world).await;
        let hello = self.client.hello();
        self.say(hello).await;
        while !self.client.is_synced {
            self.hear().await;
        }
    }

    /// Connects, and says nothing.
    pub(crate) async fn open(&mut self, world: &World) {
        self.open_with(world, "").await;
    }

    /// The same, to read only.
    pub(crate) async fn open_to_read(&mut self, world: &World) {
        self.open_with(world, "&reader").await;
    }

    async fn open_with(&mut self, world: &World, query: &str) {
        let uri = format!("/parties/main/pad?_pk=peer-{}{query}", self.client.id());
        let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
        let mut response = world.pad().fetch(request).await.unwrap();
        let client: ClientSocket = response.extensions_mut().remove().unwrap();
        self.socket = Some(client.claim().unwrap());
    }

    pub(crate) async fn say(&mut self, message: impl Into<Message>) {
        let socket = self.socket.as_mut().unwrap();
        socket.deliver(message.into()).await.unwrap();
    }

    /// Hears one frame, and answers it.
    pub(crate) async fn hear(&mut self) {
        let frame = self.socket.as_mut().unwrap().next_frame();
        match in_time("a frame", frame).await {
            Frame::Message(message) => self.take(message).await,
            Frame::Close(close) => panic!("{close:?}"),
        }
    }

    /// Hears all that is there.
    pub(crate) async fn hear_all(&mut self) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while let Some(socket) = &self.socket
            && let Poll::Ready(frame) = socket.poll_frame(&mut context)
        {
            match frame {
                Frame::Message(message) => self.take(message).await,
                Frame::Close(close) => panic!("{close:?}"),
            }
        }
    }

    async fn take(&mut self, message: Message) {
        match message {
            Message::Text(text) => self.texts.push(text.to_string()),
            Message::Binary(frame) => {
                for answer in self.client.hear(&frame) {
                    self.say(answer).await;
                }
            }
        }
    }

    /// The close that the server sends, after whatever it said before.
    pub(crate) async fn closed(&mut self) -> CloseFrame {
        loop {
            let frame = self.socket.as_mut().unwrap().next_frame();
            if let Frame::Close(close) = in_time("a close", frame).await {
                return close;
            }
        }
    }

    pub(crate) async fn insert(&mut self, at: u32, text: &str) {
        let update = self.client.insert(at, text);
        self.say(update).await;
    }

    pub(crate) async fn remove(&mut self, at: u32, length: u32) {
        let update = self.client.remove(at, length);
        self.say(update).await;
    }

    pub(crate) async fn state(&mut self, json: &str) {
        let state = self.client.state(json);
        self.say(state).await;
    }

    /// The connection breaks.
    pub(crate) fn break_off(&mut self) {
        self.socket = None;
    }

    /// Receives messages until a client's state is this one.
    pub(crate) async fn until_state(&mut self, client: u64, json: &str) {
        while self.client.states.get(&client).map(String::as_str) != Some(json) {
            self.hear().await;
        }
    }

    /// Hears until this many updates have come.
    pub(crate) async fn until_heard(&mut self, updates: u32) {
        while self.client.updates < updates {
            self.hear().await;
        }
    }

    pub(crate) async fn say_if_connected(&mut self, message: Vec<u8>) {
        if self.socket.is_some() {
            self.say(message).await;
        }
    }

    /// Hears all that was said before it asks, and what came of that.
    pub(crate) async fn settle(&mut self) {
        let asked = self.texts.len();
        self.say("__YPS:settle").await;
        while self.texts.len() == asked {
            self.hear().await;
        }
    }

    /// Hears until its text is this one.
    pub(crate) async fn until_text(&mut self, text: &str) {
        while self.client.text() != text {
            self.hear().await;
        }
    }
}
