//! Awareness: the states of the clients that are connected.
//!
//! A client's state belongs to the connection that brought it first, and ends with it. No other connection can change
//! it, because clients also repeat the states of others. States are attached to connections, so they outlive the
//! object in memory. The clocks of clients that left are kept only here, as long as late repetitions of them may
//! come.

use std::collections::{BTreeMap, VecDeque};

use abide::Result;
use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::{
    limits::{
        MAX_AWARENESS_BYTES, MAX_AWARENESS_MESSAGE_BYTES, MAX_DEPARTED, MAX_ENTRIES, MAX_STATES,
    },
    message,
    refusal::Refusal,
};
use crate::party::{Connection, Room};

/// The state of a client that has left.
const GONE: &str = "null";

/// A client's state, as it is attached to its connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Present {
    client: u64,
    clock: u32,
    state: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// With the connection whose WebSocket has this id.
    With(u64),
    Departed,
}

/// The states of all clients.
#[derive(Debug)]
pub(super) struct Awareness {
    known: BTreeMap<u64, (u32, Whereabouts)>,
    /// In the order in which they left; some may have come back.
    departed: VecDeque<u64>,
}

impl Awareness {
    /// What the connections have.
    pub(super) fn of(room: &Room) -> Result<Self> {
        let mut known = BTreeMap::new();
        for connection in room.connections(None) {
            for present in states(&connection)? {
                let whereabouts = Whereabouts::With(connection.socket().id());
                known.insert(present.client, (present.clock, whereabouts));
            }
        }
        Ok(Self {
            known,
            departed: VecDeque::new(),
        })
    }

    /// Takes an awareness message of a connection; returns the message for all, if there is news.
    pub(super) fn update(
        &mut self,
        connection: &Connection,
        content: &[u8],
    ) -> Result<Result<Option<Vec<u8>>, Refusal>> {
        if content.len() > MAX_AWARENESS_MESSAGE_BYTES {
            return Ok(Err(Refusal::TooLong));
        }
        let Ok(entries) = message::entries(content, MAX_ENTRIES) else {
            return Ok(Err(Refusal::MalformedAwareness));
        };
        let owner = Whereabouts::With(connection.socket().id());
        let is_news = |&(client, clock, state): &(u64, u32, &str)| match self.known.get(&client) {
            None => state != GONE,
            Some((_, Whereabouts::Departed)) if state == GONE => false,
            Some(&(known, Whereabouts::Departed)) => clock > known,
            Some(&(known, with)) => {
                with == owner && (clock > known || (clock == known && state == GONE))
            }
        };
        let news: Vec<_> = entries.into_iter().filter(is_news).collect();
        if news.is_empty() {
            return Ok(Ok(None));
        }
        let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
        if !news.iter().all(|(_, _, state)| is_json(state)) {
            return Ok(Err(Refusal::MalformedAwareness));
        }
        let mut own = states(connection)?;
        for &(client, clock, state) in &news {
            own.retain(|present| present.client != client);
            if state != GONE {
                own.push(Present {
                    client,
                    clock,
                    state: state.to_owned(),
                });
            }
        }
        let bytes: usize = own.iter().map(|present| present.state.len()).sum();
        if own.len() > MAX_STATES || bytes > MAX_AWARENESS_BYTES {
            return Ok(Err(Refusal::TooMuchAwareness));
        }
        attach(connection, &own)?;
        for &(client, clock, state) in &news {
            if state == GONE {
                self.depart(client, clock);
            } else {
                self.known.insert(client, (clock, owner));
            }
        }
        Ok(Ok(Some(message::awareness(news.into_iter()))))
    }

    /// Forgets the clients of a connection that has ended; the message for all others, if it had any.
    pub(super) fn end(&mut self, connection: &Connection) -> Result<Option<Vec<u8>>> {
        let gone = states(connection)?;
        for present in &gone {
            self.depart(present.client, present.clock);
        }
        let entries = gone
            .iter()
            .map(|present| (present.client, present.clock, GONE));
        Ok((!gone.is_empty()).then(|| message::awareness(entries)))
    }

    fn depart(&mut self, client: u64, clock: u32) {
        self.known.insert(client, (clock, Whereabouts::Departed));
        self.departed.push_back(client);
        if self.departed.len() > MAX_DEPARTED
            && let Some(first) = self.departed.pop_front()
            && !self.departed.contains(&first)
            && matches!(self.known.get(&first), Some((_, Whereabouts::Departed)))
        {
            self.known.remove(&first);
        }
    }
}

/// The states of all connected clients, as a message; `None` if there are none.
pub(super) fn all_states(room: &Room) -> Result<Option<Vec<u8>>> {
    let mut all = Vec::new();
    for connection in room.connections(None) {
        all.extend(states(&connection)?);
    }
    let entries = all
        .iter()
        .map(|present| (present.client, present.clock, &*present.state));
    Ok((!all.is_empty()).then(|| message::awareness(entries)))
}

/// What is attached to a connection: its states in a compact form, because JSON in JSON would double its quotation marks.
#[derive(Default, Serialize, Deserialize)]
struct Attached {
    states: Vec<(u64, u32, Box<serde_json::value::RawValue>)>,
    is_read_only: bool,
}

/// Makes a connection read-only.
pub(super) fn make_read_only(connection: &Connection) -> Result<()> {
    let attached: Attached = connection.share()?.unwrap_or_default();
    connection.set_share(&Attached {
        is_read_only: true,
        ..attached
    })
}

pub(super) fn is_read_only(connection: &Connection) -> Result<bool> {
    let attached: Attached = connection.share()?.unwrap_or_default();
    Ok(attached.is_read_only)
}

fn states(connection: &Connection) -> Result<Vec<Present>> {
    let attached: Attached = connection.share()?.unwrap_or_default();
    let present = |(client, clock, state): (u64, u32, Box<serde_json::value::RawValue>)| Present {
        client,
        clock,
        state: state.get().to_owned(),
    };
    Ok(attached.states.into_iter().map(present).collect())
}

fn attach(connection: &Connection, states: &[Present]) -> Result<()> {
    let raw = |present: &Present| {
        let state = serde_json::value::RawValue::from_string(present.state.clone());
        Ok((present.client, present.clock, state?))
    };
    let states: serde_json::Result<_> = states.iter().map(raw).collect();
    connection.set_share(&Attached {
        states: states.map_err(abide::Error::from_std)?,
        is_read_only: is_read_only(connection)?,
    })
}
