//! A node on a disk in memory whose objects are rooms, and clients of them.

use std::task::Poll;

use abide::{
    NodeBuilder,
    http::StatusCode,
    party::{Connection, Room, RoomOptions},
    prelude::*,
    socket::{ClientSocket, Endpoint, Frame},
    storage::SimDisk,
};
use abide_harness::in_time;
use serde::{Deserialize, Serialize};

use crate::world::{self, Setup};

/// How rooms are kept in a test.
#[derive(Clone, Copy, Default)]
pub(crate) struct Settings(pub(crate) RoomOptions);

/// Passes on what is said. The path of the address has the tags.
#[durable_object]
pub(crate) struct Lobby {
    room: Room,
}

/// What the object knows of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) id: String,
    pub(crate) tags: Vec<String>,
    pub(crate) uri: String,
    /// How often it has said something.
    pub(crate) said: Option<u32>,
}

impl DurableObject for Lobby {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let room = Room::open(&ctx, env.require::<Settings>()?.0)?;
        Ok(Self { room })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let tags: Vec<_> = request.uri().path().split('/').skip(4).collect();
        match self.room.connect(&request, &tags) {
            Ok((connection, response)) => {
                connection.send("welcome")?;
                Ok(response)
            }
            Err(refused) => Ok(refused.into_response()),
        }
    }

    async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        let connection = self.room.connection(&ws)?;
        let said = connection.state::<u32>()?.unwrap_or(0) + 1;
        connection.set_state(&said)?;
        self.room.broadcast(&message, &[&connection]);
        Ok(())
    }
}

#[rpc]
impl Lobby {
    pub async fn tell(&self, tag: Option<String>, text: String, except: String) -> Result<usize> {
        let except = self.room.find(&except);
        let except: Vec<_> = except.iter().collect();
        Ok(self.room.send_to(tag.as_deref(), text, &except))
    }

    pub async fn there(&self, tag: Option<String>) -> Result<Vec<Known>> {
        let connections = self.room.connections(tag.as_deref());
        connections.iter().map(known).collect()
    }

    pub async fn find(&self, id: String) -> Result<Option<Known>> {
        self.room.find(&id).as_ref().map(known).transpose()
    }

    /// Keeps this many bytes with a connection.
    pub async fn keep(&self, id: String, bytes: usize) -> Result<()> {
        let connection = self
            .room
            .find(&id)
            .ok_or_else(|| Error::new("no such client"))?;
        connection.set_state(&"x".repeat(bytes))
    }
}

fn known(connection: &Connection) -> Result<Known> {
    Ok(Known {
        id: connection.id(),
        tags: connection.tags(),
        uri: connection.uri()?,
        said: connection.state()?,
    })
}

impl Setup for Settings {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        node.class::<Lobby>(ClassOptions::default()).with(*self)
    }
}

pub(crate) type World = world::World<Settings>;

impl World {
    pub(crate) fn new() -> Self {
        Self::with(RoomOptions::default())
    }

    pub(crate) fn with(options: RoomOptions) -> Self {
        Self::of(Settings(options))
    }

    pub(crate) fn lobby(&self) -> Stub<Lobby> {
        self.stub("lobby")
    }

    pub(crate) async fn there(&self, tag: Option<&str>) -> Vec<String> {
        let known = self.lobby().there(tag.map(str::to_owned)).await;
        let known = known.unwrap().into_iter();
        known.map(|known| known.id).collect()
    }

    pub(crate) async fn find(&self, id: &str) -> Option<Known> {
        self.lobby().find(id.to_owned()).await.unwrap()
    }

    pub(crate) async fn tell(&self, tag: Option<&str>, text: &str, except: &str) -> usize {
        let tag = tag.map(str::to_owned);
        let told = self.lobby().tell(tag, text.to_owned(), except.to_owned());
        told.await.unwrap()
    }

    /// Asks for a connection; the status, if there is none.
    pub(crate) async fn try_connect(&self, address: &str) -> Result<Peer, StatusCode> {
        let uri = format!("/parties/main/lobby{address}");
        let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
        let mut response = self.lobby().fetch(request).await.unwrap();
        let client: Option<ClientSocket> = response.extensions_mut().remove();
        let socket = client.ok_or(response.status())?.claim().unwrap();
        Ok(Peer(socket))
    }

    pub(crate) async fn connect(&self, address: &str) -> Peer {
        let mut peer = self.try_connect(address).await.unwrap();
        assert_eq!(peer.hear().await, "welcome");
        peer
    }
}

/// A client with a connection.
pub(crate) struct Peer(Endpoint);

impl Peer {
    pub(crate) async fn say(&mut self, text: &str) {
        self.0.deliver(text).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> String {
        match in_time("a frame", self.0.next_frame()).await {
            Frame::Message(Message::Text(text)) => text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// True if nothing was said.
    pub(crate) fn hears_nothing(&self) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        matches!(self.0.poll_frame(&mut context), Poll::Pending)
    }
}
