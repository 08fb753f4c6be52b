//! Documents that several people edit at once, by the protocols of [Yjs](https://yjs.dev): `y-websocket` and the providers of
//! `y-partyserver` and `y-partykit`, from npm, connect unmodified.
//!
//! A [`Document`] is opened in an object's constructor, beside its [`Room`], and the object's handlers hand over what comes. It promises:
//!
//! - **Nobody sees a change before it is on disk**, its author included: the author hears it back when it is, as the protocol has it.
//! - **Who was away gets what was missed, and brings what was done meanwhile**: whatever order changes come in, all replicas
//!   become the same document. After a crash they are merged with what was stored, which is everything that anybody was shown.
//! - **The stored document stays small.** Each change is a row. Past a bound they are merged into a snapshot, which forgets what was
//!   deleted; the snapshot takes the place of the rows once it was read back and compared.
//! - **Who has gone is not shown any more.** Awareness states (names, cursors) end with the connection that brought them. They are
//!   never stored, and survive the object's leaving memory.
//! - **What makes no sense changes nothing**: its connection is closed with a code and a reason, which [`Refusal`] lists.
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
//!     fn new(state: State, _env: Env) -> Result<Self> {
//!         let room = Room::open(&state, party::Options::default())?;
//!         let document = Document::open(&state, &room, yjs::Options::default())?;
//!         Ok(Self { room, document })
//!     }
//!
//!     async fn fetch(&self, request: Request) -> Result<Response> {
//!         match self.room.connect(&request, &[]) {
//!             Ok((connection, response)) => {
//!                 self.document.connect(&connection)?;
//!                 Ok(response)
//!             }
//!             Err(refused) => Ok(refused.into_response()),
//!         }
//!     }
//!
//!     async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
//!         let connection = self.room.connection(&ws)?;
//!         if let Received::Custom(text) = self.document.receive(&connection, &message)? {
//!             // The program's own: `provider.sendMessage(text)` in the page.
//!             connection.send(yjs::custom_message(&text))?;
//!         }
//!         Ok(())
//!     }
//!
//!     async fn websocket_close(&self, ws: WebSocket, _: u16, _: String, _: bool) -> Result<()> {
//!         self.document.disconnect(&self.room.connection(&ws)?)
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! Texts in the document can be read and changed by the program, too: [`Document::read`] and [`Document::transact`] take
//! functions of `yrs`, which is exported as [`yrs`].

mod awareness;
mod inspect;
mod lib0;
pub mod limits;
mod message;
mod options;
mod refusal;
mod replica;
mod rows;

use std::{
    cell::{RefCell, RefMut},
    fmt,
    rc::Rc,
};

use abide::{Error, ErrorKind, Message, Result, State};
use serde::{Deserialize, Serialize};

use awareness::Awareness;
use lib0::Reader;
use message::{NoMessage, Request};
use replica::Replica;
use rows::{UpdateRows, damaged};

use crate::party::{Connection, Room};

pub use options::Options;
pub use refusal::Refusal;
pub use yrs;

/// What texts for the program begin with, as `y-partyserver` has it.
const CUSTOM: &str = "__YPS:";

/// A document and its clients. Clones are the same document. An object has one.
#[derive(Clone)]
pub struct Document(Rc<Inner>);

struct Inner {
    room: Room,
    rows: UpdateRows,
    options: Options,
    /// `None` until it is needed, and whenever memory may differ from the table.
    live: RefCell<Option<Live>>,
    /// `None` until it is needed.
    awareness: RefCell<Option<Awareness>>,
}

/// The document in memory, and how it is stored.
struct Live {
    replica: Replica,
    /// The last row that it has.
    last: i64,
    size: Size,
}

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

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a custom message is the program's to answer"]
pub enum Received {
    /// It was the document's, and is done.
    Done,
    /// A text for the program, without the prefix `__YPS:`. Answers take it again: [`custom_message`].
    Custom(String),
    /// It was not taken, and its connection is closed.
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
    /// [`ErrorKind::Input`] if an option makes no sense; [`ErrorKind::Damaged`] if the tables are of a version that this program does
    /// not know.
    pub fn open(state: &State, room: &Room, options: Options) -> Result<Self> {
        options.check()?;
        Ok(Self(Rc::new(Inner {
            room: room.clone(),
            rows: UpdateRows::open(state.storage())?,
            options,
            live: RefCell::new(None),
            awareness: RefCell::new(None),
        })))
    }

    /// Begins with a client that was just connected: asks what it has, and tells it who is there.
    pub fn connect(&self, connection: &Connection) -> Result<()> {
        let vector = self.0.live()?.replica.state_vector();
        connection.send(message::step1(&vector))?;
        if let Some(states) = awareness::everybody(&self.0.room)? {
            connection.send(states)?;
        }
        Ok(())
    }

    /// Takes a message of a client.
    ///
    /// # Errors
    /// If the storage fails. What a client does wrong is no error: it is [refused](Received::Refused).
    pub fn receive(&self, connection: &Connection, message: &Message) -> Result<Received> {
        if !connection.is_open() {
            // It may lack what was refused before it, and comes again when its client does.
            return Ok(Received::Done);
        }
        match self.0.take(connection, message)? {
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
    pub fn read<R>(&self, look: impl FnOnce(&yrs::Doc) -> R) -> Result<R> {
        Ok(look(self.0.live()?.replica.doc()))
    }

    /// Changes the document from here. The change is stored, and sent to every client when it is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] if the document is full: nothing was changed.
    pub fn transact<R>(&self, edit: impl FnOnce(&mut yrs::TransactionMut<'_>) -> R) -> Result<R> {
        let mut live = self.0.live()?;
        let (result, change) = live.replica.transact(edit);
        let Some(change) = change else {
            return Ok(result);
        };
        drop(live);
        if let Err(refusal) = self.0.store(&change)? {
            return Err(Error::with_kind(ErrorKind::Limit, refusal.to_string()));
        }
        self.0.room.broadcast(message::update(&change), &[]);
        Ok(result)
    }

    /// How the document is stored.
    pub fn size(&self) -> Result<Size> {
        Ok(self.0.live()?.size)
    }

    /// Merges all updates into a snapshot now, if there are any.
    pub fn compact(&self) -> Result<Size> {
        let mut live = self.0.live()?;
        if live.size.updates > 0 {
            self.0.compact(&mut live)?;
        }
        Ok(live.size)
    }
}

impl Inner {
    fn take(
        &self,
        connection: &Connection,
        message: &Message,
    ) -> Result<Result<Received, Refusal>> {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => {
                let custom = text.strip_prefix(CUSTOM);
                let fits = custom.filter(|text| text.len() <= limits::MAX_CUSTOM_BYTES);
                let received = fits.map(|text| Received::Custom(text.to_owned()));
                return Ok(received.ok_or(Refusal::UnknownText));
            }
        };
        let limit = self.options.max_message_bytes;
        if bytes.len() > limit {
            return Ok(Err(Refusal::TooLong { limit }));
        }
        let mut reader = Reader::new(bytes);
        // A frame has one message or several; an empty one is none.
        loop {
            let request = match Request::read(&mut reader) {
                Ok(request) => request,
                Err(NoMessage::Malformed) => return Ok(Err(Refusal::Malformed)),
                Err(NoMessage::Unknown(kind)) => return Ok(Err(Refusal::UnknownType(kind))),
            };
            if let Err(refusal) = self.answer(connection, request)? {
                return Ok(Err(refusal));
            }
            if reader.is_empty() {
                return Ok(Ok(Received::Done));
            }
        }
    }

    fn answer(&self, connection: &Connection, request: Request<'_>) -> Result<Result<(), Refusal>> {
        match request {
            Request::Step1(vector) => {
                let missing = self.live()?.replica.beyond(vector);
                match missing {
                    Ok(update) => connection.send(message::step2(&update))?,
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            Request::Step2(update) => return Ok(self.update(update)?.map(drop)),
            Request::Update(update) => match self.update(update)? {
                // Its client has what it depends on, too: ask for all of it.
                Ok(Taken::Part) => {
                    let vector = self.live()?.replica.state_vector();
                    connection.send(message::step1(&vector))?;
                }
                Ok(Taken::Whole) => {}
                Err(refusal) => return Ok(Err(refusal)),
            },
            Request::Awareness(states) => {
                let news = self.awareness()?.update(connection, states)?;
                match news {
                    // Those who sent them hear them, too: a client that hears nothing for long takes its connection for dead.
                    Ok(Some(states)) => drop(self.room.broadcast(states, &[])),
                    Ok(None) => {}
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            Request::QueryAwareness => {
                if let Some(states) = awareness::everybody(&self.room)? {
                    connection.send(states)?;
                }
            }
        }
        Ok(Ok(()))
    }

    /// Applies, stores and passes on an update.
    fn update(&self, update: &[u8]) -> Result<Result<Taken, Refusal>> {
        let mut live = self.live()?;
        let applied = match live.replica.apply(update) {
            Ok(applied) => applied,
            Err(refusal) => {
                drop(live);
                self.forget();
                return Ok(Err(refusal));
            }
        };
        drop(live);
        if let Some(change) = applied.change {
            if let Err(refusal) = self.store(&change)? {
                return Ok(Err(refusal));
            }
            self.room.broadcast(message::update(&change), &[]);
        }
        Ok(Ok(if applied.is_cut {
            Taken::Part
        } else {
            Taken::Whole
        }))
    }

    /// Stores an update that memory has already; merges all if there are many. If it is refused or fails, memory is read anew.
    fn store(&self, update: &[u8]) -> Result<Result<(), Refusal>> {
        let stored = self.try_store(update);
        if !matches!(stored, Ok(Ok(()))) {
            self.forget();
        }
        stored
    }

    fn try_store(&self, update: &[u8]) -> Result<Result<(), Refusal>> {
        let mut slot = self.live.borrow_mut();
        let Some(live) = slot.as_mut() else {
            return Err(in_use());
        };
        let bytes = update.len() as u64;
        let limit = self.options.max_document_bytes;
        if live.size.total() + bytes > limit {
            // Perhaps it fits when all is merged.
            let snapshot = live.replica.whole();
            if snapshot.len() as u64 > limit {
                return Ok(Err(Refusal::Full { limit }));
            }
            return self.replace(live, &snapshot).map(|replaced| {
                let refused = Refusal::Full { limit };
                if replaced { Ok(()) } else { Err(refused) }
            });
        }
        live.last = self.rows.append(live.last, update)?;
        live.size.updates += 1;
        live.size.update_bytes += bytes;
        let enough = self
            .options
            .compact_after_bytes
            .max(live.size.snapshot_bytes);
        if live.size.updates >= self.options.compact_after_updates
            || live.size.update_bytes >= enough
        {
            self.compact(live)?;
        }
        Ok(Ok(()))
    }

    /// Merges all updates into a snapshot.
    fn compact(&self, live: &mut Live) -> Result<()> {
        let snapshot = live.replica.whole();
        self.replace(live, &snapshot).map(drop)
    }

    /// Puts a snapshot in the place of the updates, if it is the same document.
    fn replace(&self, live: &mut Live, snapshot: &[u8]) -> Result<bool> {
        let Some(replica) = live.replica.verified(snapshot) else {
            // What is stored is right; it only stays long.
            tracing::warn!("a snapshot of a Yjs document differs from it, so its updates are kept");
            return Ok(false);
        };
        live.last = self.rows.replace(live.last, snapshot)?;
        live.replica = replica;
        live.size = Size {
            snapshot_bytes: snapshot.len() as u64,
            updates: 0,
            update_bytes: 0,
        };
        Ok(true)
    }

    /// The document as the table has it. Memory may be ahead of it when a transaction around a change was undone.
    fn live(&self) -> Result<RefMut<'_, Live>> {
        let last = self.rows.last()?;
        let mut slot = self.live.try_borrow_mut().map_err(|_| in_use())?;
        if slot.as_ref().is_none_or(|live| live.last != last) {
            *slot = None;
            *slot = Some(self.load()?);
        }
        RefMut::filter_map(slot, Option::as_mut).map_err(|_| in_use())
    }

    fn load(&self) -> Result<Live> {
        let snapshot = self.rows.snapshot()?;
        let mut live = Live {
            replica: Replica::new(),
            last: 0,
            size: Size::default(),
        };
        self.rows.read(|id, update| {
            let applied = live.replica.apply(update);
            if !applied.is_ok_and(|applied| !applied.is_cut) {
                return Err(damaged(&format!(
                    "the update that ends at row {id} does not fit"
                )));
            }
            live.last = id;
            let bytes = update.len() as u64;
            if id == snapshot {
                live.size.snapshot_bytes = bytes;
            } else {
                live.size.updates += 1;
                live.size.update_bytes += bytes;
            }
            Ok(())
        })?;
        Ok(live)
    }

    /// What is in memory may not be what is stored.
    fn forget(&self) {
        *self.live.borrow_mut() = None;
    }

    fn awareness(&self) -> Result<RefMut<'_, Awareness>> {
        let mut slot = self.awareness.try_borrow_mut().map_err(|_| in_use())?;
        if slot.is_none() {
            *slot = Some(Awareness::of(&self.room)?);
        }
        RefMut::filter_map(slot, Option::as_mut).map_err(|_| in_use())
    }
}

/// How much of an update was taken.
enum Taken {
    Whole,
    /// The rest depends on what is not there yet.
    Part,
}

/// The document is asked by what it calls itself.
fn in_use() -> Error {
    Error::with_kind(
        ErrorKind::Input,
        "the document is in use: a function that reads or changes it cannot use it as well; it is given what it needs",
    )
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}
