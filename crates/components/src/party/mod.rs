//! Rooms for the clients of `PartyKit`: `partysocket`, from npm, connects, reconnects and buffers unmodified.
//!
//! A room is an object. Its clients have ids, tags and their own state, which survives when the object leaves memory. The object's
//! class has the handlers; a [`Room`], opened in its constructor, has what they need.
//!
//! | `PartyKit` | here |
//! |---|---|
//! | `onStart` | the constructor |
//! | `onConnect`, `onRequest` | `fetch`: [`Room::wants_connection`] tells which, [`Room::connect`] accepts a client |
//! | `onMessage`, `onClose`, `onError` | `websocket_message`, `websocket_close`, `websocket_error`, with [`Room::connection`] |
//! | `onAlarm`, `storage.setAlarm` | `alarm`, [`Storage::set_alarm`](abide::Storage::set_alarm), or a schedule |
//! | `broadcast(message, without)` | [`Room::broadcast`] |
//! | `getConnections(tag)`, `getConnection(id)` | [`Room::connections`], [`Room::find`] |
//! | `connection.state`, `setState` | [`Connection::state`], [`Connection::set_state`] |
//! | `/parties/{party}/{room}` | [`Parties`] |
//!
//! ```
//! use abide::prelude::*;
//! use abide::party::{RoomOptions, Room};
//!
//! #[durable_object]
//! struct Table {
//!     room: Room,
//! }
//!
//! impl DurableObject for Table {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         Ok(Self { room: Room::open(&ctx, RoomOptions::default())? })
//!     }
//!
//!     async fn fetch(&self, request: Request) -> Result<Response> {
//!         match self.room.connect(&request, &["player"]) {
//!             Ok((connection, response)) => {
//!                 connection.set_state(&0_u32)?;
//!                 Ok(response)
//!             }
//!             Err(refused) => Ok(refused.into_response()),
//!         }
//!     }
//!
//!     async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
//!         let connection = self.room.connection(&ws)?;
//!         let moves = connection.state::<u32>()?.unwrap_or(0) + 1;
//!         connection.set_state(&moves)?;
//!         self.room.broadcast(&message, &[&connection]);
//!         Ok(())
//!     }
//! }
//! # fn main() {}
//! ```

mod connection;
mod error;
pub(crate) mod limits;
mod router;

use std::{cell::Cell, fmt, rc::Rc};

use abide::{Ctx, Error, ErrorKind, Message, Request, Response, Result, WebSocket, http::header};

use abide_macros::Setters;

use connection::ID_PREFIX;
use limits::{DEFAULT_MAX_CONNECTIONS, MAX_CONNECTIONS, MAX_ID_BYTES, MAX_TAGS, MAX_URI_BYTES};

pub use connection::Connection;
pub use error::PartyError;
pub use router::Parties;

/// How a room is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct RoomOptions {
    /// Connections at the same time, at most [`MAX_CONNECTIONS`].
    pub max_connections: usize,
}

impl Default for RoomOptions {
    fn default() -> Self {
        Self {
            max_connections: DEFAULT_MAX_CONNECTIONS,
        }
    }
}

/// The clients of an object. Clones are the same room.
#[derive(Clone)]
pub struct Room(Rc<Inner>);

struct Inner {
    ctx: Ctx,
    options: RoomOptions,
    /// Clients without an id since the object was loaded.
    anonymous: Cell<u64>,
}

impl Room {
    /// Opens the room of an object, in its constructor. It stores nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if an option is invalid.
    pub fn open(ctx: &Ctx, options: RoomOptions) -> Result<Self> {
        if !(1..=MAX_CONNECTIONS).contains(&options.max_connections) {
            return Err(Error::with_kind(
                ErrorKind::Input,
                format!(
                    "a room cannot take {} connections: say 1 to {MAX_CONNECTIONS}",
                    options.max_connections
                ),
            ));
        }
        Ok(Self(Rc::new(Inner {
            ctx: ctx.clone(),
            options,
            anonymous: Cell::new(0),
        })))
    }

    /// How it is kept.
    pub fn options(&self) -> RoomOptions {
        self.0.options
    }

    /// True if the request asks for a WebSocket. The room answers any other request itself.
    pub fn wants_connection(request: &Request) -> bool {
        let upgrade = request.headers().get(header::UPGRADE);
        upgrade.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
    }

    /// Accepts a client with these tags, nine at most. The response is the answer to its request; what is sent to it before is
    /// delivered when it is connected.
    ///
    /// # Errors
    /// If the room is full, or the id is invalid: answer with [`PartyError::into_response`].
    pub fn connect(
        &self,
        request: &Request,
        tags: &[&str],
    ) -> Result<(Connection, Response), PartyError> {
        let uri = request.uri().path_and_query();
        let uri = uri.map_or_else(|| "/".to_owned(), ToString::to_string);
        if uri.len() > MAX_URI_BYTES {
            return Err(PartyError::LongAddress);
        }
        let id = match query_parameter(request, "_pk") {
            Some(id) => id,
            None => self.anonymous_id(),
        };
        if id.is_empty() || id.len() > MAX_ID_BYTES || id.contains(char::is_control) {
            return Err(PartyError::InvalidId);
        }
        let limit = self.0.options.max_connections;
        if self.0.ctx.websockets().len() >= limit {
            return Err(PartyError::Full { limit });
        }
        if tags.len() > MAX_TAGS || tags.iter().any(|tag| tag.starts_with(ID_PREFIX)) {
            let text = format!(
                "a connection has at most {MAX_TAGS} tags, and none begins with {ID_PREFIX}"
            );
            return Err(Error::with_kind(ErrorKind::Input, text).into());
        }
        let id_tag = format!("{ID_PREFIX}{id}");
        let mut all = vec![&*id_tag];
        all.extend(tags);
        let (socket, response) = self.0.ctx.accept_websocket(&all)?;
        let connection = Connection::begin(socket, uri)?;
        Ok((connection, response))
    }

    /// The connection of a WebSocket that a handler was given.
    ///
    /// # Errors
    /// If the WebSocket was not accepted by [`connect`](Self::connect).
    pub fn connection(&self, socket: &WebSocket) -> Result<Connection> {
        Connection::of(socket).ok_or_else(|| {
            Error::with_kind(
                ErrorKind::Input,
                "the WebSocket is not a connection of the room: accept clients with `Room::connect`",
            )
        })
    }

    /// The open connections in the order in which they came: all, or those with a tag.
    pub fn connections(&self, tag: Option<&str>) -> Vec<Connection> {
        let sockets = match tag {
            Some(tag) => self.0.ctx.websockets_with_tag(tag),
            None => self.0.ctx.websockets(),
        };
        sockets.iter().filter_map(Connection::of).collect()
    }

    /// The newest connection with this id. There may be an older one, which has not noticed yet that its client is gone.
    pub fn find(&self, id: &str) -> Option<Connection> {
        let tag = format!("{ID_PREFIX}{id}");
        let found = self.connections(Some(&tag)).into_iter();
        found.rev().find(Connection::is_open)
    }

    /// Sends a message to every connection but these, when earlier writes are durable. Returns the number of
    /// connections.
    ///
    /// A connection that is about to close does not receive it. While the disk is slow, a connection may be closed
    /// instead, so that its client knows that it missed something.
    pub fn broadcast(&self, message: impl Into<Message>, except: &[&Connection]) -> usize {
        self.send_to(None, message, except)
    }

    /// The same, to those with a tag.
    pub fn send_to(
        &self,
        tag: Option<&str>,
        message: impl Into<Message>,
        except: &[&Connection],
    ) -> usize {
        let message = message.into();
        let mut sent = 0;
        for connection in self.connections(tag) {
            let is_excepted = except.contains(&&connection);
            if is_excepted || !connection.is_open() {
                continue;
            }
            if connection.send(&message).is_ok() {
                sent += 1;
            } else {
                // A client that misses a message must not believe that it has all of them.
                let _ = connection.close(1013, "the room is overloaded: connect again");
            }
        }
        sent
    }

    /// An id for a client that brought none.
    fn anonymous_id(&self) -> String {
        let count = self.0.anonymous.get() + 1;
        self.0.anonymous.set(count);
        let now = self.0.ctx.env().clock().unix_millis();
        format!("anonymous-{now:x}-{count:x}")
    }
}

/// A parameter of the query, decoded.
fn query_parameter(request: &Request, name: &str) -> Option<String> {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.find_map(|(key, value)| (key == name).then(|| value.into_owned()))
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room")
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}
