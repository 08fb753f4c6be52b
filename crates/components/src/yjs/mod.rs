//! Documents that several people edit at once, by the protocols of [Yjs](https://yjs.dev): `y-websocket` and the providers of
//! `y-partyserver` and `y-partykit`, from npm, connect unmodified.
//!
//! A [`Document`] is opened in an object's constructor, with its [`Room`], and the object's handlers pass it the messages. It promises:
//!
//! - **No client sees a change before it is on disk**, its author included: the author gets it back when it is stored, as the protocol says.
//! - **A client that was offline gets the changes that it missed and brings its own**: in any order of changes, all replicas
//!   become the same document. After a crash they are merged with what was stored, which is everything that any client was shown.
//! - **The stored document stays small.** Each change is a row. Past a bound they are merged into a snapshot, which forgets what was
//!   deleted; the snapshot takes the place of the rows once it was read back and compared.
//! - **Clients that have left are not shown.** Awareness states (names, cursors) end with the connection that brought them. They are
//!   never stored, and survive when the object leaves memory.
//! - **A malformed message changes nothing**: its connection is closed with a code and a reason, which [`Refusal`] lists.
//! - **No update takes long**: its processor time is bounded by its length, and long work is done away from the worker's thread.
//!
//! ```
//! use abide::prelude::*;
//! use abide::party::{self, Room};
//! use abide::yjs::{self, Document, Received};
//!
//! #[durable_object]
//! struct Pad {
//!     room: Room,
//!     document: Document,
//! }
//!
//! impl DurableObject for Pad {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         let room = Room::open(&ctx, party::RoomOptions::default())?;
//!         let document = Document::open(&ctx, &room, yjs::DocumentOptions::default())?;
//!         Ok(Self { room, document })
//!     }
//!
//!     async fn fetch(&self, request: Request) -> Result<Response> {
//!         match self.room.connect(&request, &[]) {
//!             Ok((connection, response)) => {
//!                 self.document.connect(&connection).await?;
//!                 Ok(response)
//!             }
//!             Err(refused) => Ok(refused.into_response()),
//!         }
//!     }
//!
//!     async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
//!         let connection = self.room.connection(&ws)?;
//!         if let Received::Custom(text) = self.document.receive(&connection, &message).await? {
//!             // The program's own: `provider.sendMessage(text)` in the page.
//!             connection.send(yjs::custom_message(&text))?;
//!         }
//!         Ok(())
//!     }
//!
//!     async fn websocket_close(&self, ws: WebSocket, _: Close) -> Result<()> {
//!         self.document.disconnect(&self.room.connection(&ws)?)
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! Texts in the document can be read and changed by the program, too: [`Document::read`] and [`Document::transact`] take
//! functions of `yrs`, which is exported as [`yrs`].

mod awareness;
mod exchange;
mod inspect;
mod lib0;
pub(crate) mod limits;
mod message;
mod options;
mod pieces;
mod refusal;
mod replica;
mod rows;
mod stored;
mod work;

use std::{fmt, rc::Rc};

use abide::{Ctx, Error, ErrorKind, Message, Result};
use serde::{Deserialize, Serialize};

use exchange::Exchange;
use stored::Turn;

use crate::party::{Connection, Room};

pub use options::DocumentOptions;
pub use refusal::Refusal;
pub use yrs;

/// Prefix of texts for the program, as `y-partyserver` has it.
const CUSTOM: &str = "__YPS:";

/// A document and its clients. Clones are the same document. An object has one.
#[derive(Clone)]
pub struct Document(Rc<Exchange>);

/// How a document is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Bytes of the snapshot.
    pub snapshot_bytes: u64,
    /// Updates since the snapshot.
    pub updates: u64,
    /// Their bytes.
    pub update_bytes: u64,
}

impl Size {
    /// Bytes of everything.
    pub fn total(&self) -> u64 {
        self.snapshot_bytes + self.update_bytes
    }
}

/// The outcome of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the program has to answer a custom message"]
pub enum Received {
    /// It was the document's, and is done.
    Done,
    /// A text for the program, without the prefix `__YPS:`. Answers take it again: [`custom_message`].
    Custom(String),
    /// The message was refused, and its connection is closed.
    Refused(Refusal),
}

/// A text for the programs at the other end: `provider.on("custom-message", …)`.
pub fn custom_message(text: &str) -> Message {
    format!("{CUSTOM}{text}").into()
}

impl Document {
    /// Opens the document of an object, in its constructor; makes its tables, whose names begin with `yjs`, when there are none. It is
    /// read when it is first needed.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if an option is invalid; [`ErrorKind::Damaged`] if the tables are of a version that this program does
    /// not know.
    pub fn open(ctx: &Ctx, room: &Room, options: DocumentOptions) -> Result<Self> {
        options.check()?;
        let exchange = Exchange::open(ctx, room, options)?;
        Ok(Self(Rc::new(exchange)))
    }

    /// Greets a client that has just connected: asks for its changes, and sends it the awareness states.
    pub async fn connect(&self, connection: &Connection) -> Result<()> {
        let vector = match self.0.stored.turn().await? {
            Ok(mut turn) => turn.live()?.replica.state_vector(),
            Err(refusal) => return connection.close(refusal.code(), &refusal.to_string()),
        };
        connection.send(message::step1(&vector))?;
        if let Some(states) = awareness::all_states(&self.0.room)? {
            connection.send(states)?;
        }
        Ok(())
    }

    /// The same for a client that may read but not write. It receives every change, and its awareness states are
    /// shown. If it sends a change, its connection is closed with 4403.
    pub async fn connect_read_only(&self, connection: &Connection) -> Result<()> {
        awareness::make_read_only(connection)?;
        self.connect(connection).await
    }

    /// Takes a message of a client. Messages are taken in the order of these calls; a long one is applied on another thread, while
    /// others of the document wait.
    ///
    /// # Errors
    /// If the storage fails. A client's mistake is not an error: its message is [refused](Received::Refused).
    pub async fn receive(&self, connection: &Connection, message: &Message) -> Result<Received> {
        if !connection.is_open() {
            // It may depend on changes that were refused before it. The client sends it again when it reconnects.
            return Ok(Received::Done);
        }
        match self.0.take(connection, message).await? {
            Ok(received) => Ok(received),
            Err(refusal) => {
                connection.close(refusal.code(), &refusal.to_string())?;
                Ok(Received::Refused(refusal))
            }
        }
    }

    /// Tells the others that a client has gone.
    pub fn disconnect(&self, connection: &Connection) -> Result<()> {
        let news = self.0.awareness()?.end(connection)?;
        if let Some(states) = news {
            self.0.room.broadcast(states, &[connection]);
        }
        Ok(())
    }

    /// Shows the document to a function.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] if the document is [quarantined](Refusal::Quarantined), as for all methods below.
    pub async fn read<R>(&self, look: impl FnOnce(&yrs::Doc) -> R) -> Result<R> {
        Ok(look(self.turn().await?.live()?.replica.doc()))
    }

    /// Changes the document from the program. The change is stored, and sent to every client when it is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] if the document is full: nothing was changed.
    pub async fn transact<R>(
        &self,
        edit: impl FnOnce(&mut yrs::TransactionMut<'_>) -> R,
    ) -> Result<R> {
        let mut turn = self.turn().await?;
        let (result, change) = turn.live()?.replica.transact(edit);
        if let Some(change) = change {
            turn.store(&change).await?.map_err(refused)?;
            self.0.room.broadcast(message::update(&change), &[]);
            turn.compact_if_due().await?;
        }
        Ok(result)
    }

    /// How many bytes are stored.
    pub async fn size(&self) -> Result<Size> {
        Ok(self.turn().await?.live()?.size)
    }

    /// Merges all updates into a snapshot now, if there are any.
    pub async fn compact(&self) -> Result<Size> {
        let mut turn = self.turn().await?;
        if turn.live()?.size.updates > 0 {
            turn.compact(u64::MAX).await?;
        }
        Ok(turn.live()?.size)
    }

    async fn turn(&self) -> Result<Turn<'_>> {
        self.0.stored.turn().await?.map_err(refused)
    }
}

fn refused(refusal: Refusal) -> Error {
    Error::with_kind(ErrorKind::Limit, refusal.to_string())
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("options", &self.0.stored.options)
            .finish_non_exhaustive()
    }
}
