//! A client of a room.

use abide::{Error, ErrorKind, Message, Result, WebSocket, socket::ReadyState};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::limits::{MAX_SHARE_BYTES, MAX_STATE_BYTES};

/// Prefix of the tag with a connection's id. A program's tags may not have it.
pub(super) const ID_PREFIX: &str = "_pk:";

/// A client of a room. Clones are the same connection, and equal.
///
/// What it knows is attached to its WebSocket, so it survives the object's leaving memory, and ends with the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    socket: WebSocket,
}

/// What is attached to a connection's WebSocket.
#[derive(Serialize, Deserialize)]
struct Attached {
    uri: String,
    /// The program's, as JSON.
    state: Option<String>,
    /// That of a component.
    share: Option<String>,
}

impl Connection {
    /// The connection of a WebSocket that was just accepted.
    pub(super) fn begin(socket: WebSocket, uri: String) -> Result<Self> {
        let connection = Self { socket };
        connection.attach(&Attached {
            uri,
            state: None,
            share: None,
        })?;
        Ok(connection)
    }

    /// The connection of a WebSocket, if it is one.
    pub(super) fn of(socket: &WebSocket) -> Option<Self> {
        let mut tags = socket.tags().into_iter();
        tags.any(|tag| tag.starts_with(ID_PREFIX)).then(|| Self {
            socket: socket.clone(),
        })
    }

    /// The id that the client chose (`_pk`) or was given. It is not a secret and proves nothing. A client that
    /// reconnects has the same id, perhaps before its old connection has ended.
    pub fn id(&self) -> String {
        let mut tags = self.socket.tags().into_iter();
        let id = tags.find_map(|tag| tag.strip_prefix(ID_PREFIX).map(str::to_owned));
        id.unwrap_or_default()
    }

    /// The tags that the program gave it.
    pub fn tags(&self) -> Vec<String> {
        let mut tags = self.socket.tags();
        tags.retain(|tag| !tag.starts_with(ID_PREFIX));
        tags
    }

    /// Path and query with which it was opened.
    pub fn uri(&self) -> Result<String> {
        Ok(self.attached()?.uri)
    }

    /// Its WebSocket.
    pub fn socket(&self) -> &WebSocket {
        &self.socket
    }

    /// True while messages can be sent.
    pub fn is_open(&self) -> bool {
        self.socket.ready_state() == ReadyState::Open
    }

    /// Sends a message: see [`WebSocket::send`].
    pub fn send(&self, message: impl Into<Message>) -> Result<()> {
        self.socket.send(message)
    }

    /// Closes it: see [`WebSocket::close`].
    pub fn close(&self, code: u16, reason: &str) -> Result<()> {
        self.socket.close(code, reason)
    }

    /// What the program keeps with it; `None` until it keeps something.
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        from_json(self.attached()?.state)
    }

    /// Keeps a value with it, in place of the one before. It survives the object's leaving memory.
    ///
    /// # Errors
    /// If it has more than [`MAX_STATE_BYTES`] as JSON.
    pub fn set_state<T: Serialize + ?Sized>(&self, state: &T) -> Result<()> {
        let state = to_json(state, "state", MAX_STATE_BYTES)?;
        self.attach(&Attached {
            state: Some(state),
            ..self.attached()?
        })
    }

    /// What a component keeps with it.
    #[cfg_attr(not(feature = "yjs"), expect(dead_code, reason = "for components"))]
    pub(crate) fn share<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        from_json(self.attached()?.share)
    }

    #[cfg_attr(not(feature = "yjs"), expect(dead_code, reason = "for components"))]
    pub(crate) fn set_share<T: Serialize + ?Sized>(&self, share: &T) -> Result<()> {
        let share = to_json(share, "awareness", MAX_SHARE_BYTES)?;
        self.attach(&Attached {
            share: Some(share),
            ..self.attached()?
        })
    }

    fn attached(&self) -> Result<Attached> {
        let attached = self.socket.attachment()?;
        attached.ok_or_else(|| {
            Error::with_kind(
                ErrorKind::Input,
                "the WebSocket's attachment is not that of a connection: keep what belongs to it with `Connection::set_state`",
            )
        })
    }

    fn attach(&self, attached: &Attached) -> Result<()> {
        self.socket.set_attachment(attached)
    }
}

fn from_json<T: DeserializeOwned>(text: Option<String>) -> Result<Option<T>> {
    let value = text.map(|text| serde_json::from_str(&text));
    value.transpose().map_err(Error::from_std)
}

fn to_json<T: Serialize + ?Sized>(value: &T, what: &str, limit: usize) -> Result<String> {
    let text = serde_json::to_string(value).map_err(Error::from_std)?;
    if text.len() > limit {
        return Err(Error::with_kind(
            ErrorKind::Limit,
            format!(
                "the connection's {what} has {} bytes as JSON; at most {limit} are allowed: keep the rest in storage",
                text.len()
            ),
        ));
    }
    Ok(text)
}
