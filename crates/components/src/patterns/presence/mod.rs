//! Presence: which visitors are present.
//!
//! An object that holds a [`Presence`], such as a room, knows which visitors have sent a heartbeat within
//! [`PresenceOptions::timeout`], or up to a quarter longer: heartbeats that follow each other closely are not all stored.
//! Heartbeats are:
//!
//! - a WebSocket that is opened ([`Presence::enter`]), and each heartbeat on it. Heartbeats are texts that the gateway
//!   answers without waking the object, so the room can hibernate while its sockets beat;
//! - a heartbeat by any other way, such as an HTTP request ([`Presence::beat`]).
//!
//! A visitor who closes their last socket cleanly leaves at once ([`Presence::closed`]). One who loses the
//! connection, or whose server restarts, may return until the timeout without anyone being notified.
//!
//! The visitors are stored, so they survive hibernation and crashes. A crash forgets the heartbeats on sockets since
//! the last check, together with the sockets. The object's alarm `presence` looks for visitors that have timed out,
//! once in each timeout, while any are present.
//!
//! ```
//! use abide::prelude::*;
//! use abide::patterns::presence::{Change, PresenceOptions, Presence};
//!
//! #[durable_object]
//! struct Room {
//!     presence: Presence,
//! }
//!
//! impl DurableObject for Room {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         let presence = Presence::open(&ctx, PresenceOptions::default())?;
//!         presence.on_change(move |change| {
//!             ctx.broadcast(match change {
//!                 Change::Came(who) => format!("{who} is here"),
//!                 Change::Left(who) => format!("{who} has left"),
//!             })
//!         });
//!         Ok(Self { presence })
//!     }
//!
//!     async fn fetch(&self, request: Request) -> Result<Response> {
//!         let who = request.uri().path().trim_start_matches('/').to_owned();
//!         let (_, response) = self.presence.enter(&who)?;
//!         Ok(response)
//!     }
//!
//!     async fn websocket_close(&self, ws: WebSocket, close: Close) -> Result<()> {
//!         self.presence.closed(&ws, close.was_clean)
//!     }
//! }
//!
//! #[rpc]
//! impl Room {
//!     pub async fn who(&self) -> Result<Vec<String>> {
//!         Ok(self.presence.here()?.into_iter().map(|present| present.who).collect())
//!     }
//! }
//! # fn main() {}
//! ```

mod options;
mod rows;

use std::{cell::RefCell, collections::BTreeMap, fmt, rc::Rc};

use abide::{
    Ctx, Error, ErrorKind, ReadyState, RequestResponsePair, Response, Result, Timestamp, WebSocket,
};

use super::{limits, now, wrong_length};
use abide_component::{WakeUp, numbers::millis};
use rows::Rows;

pub use options::PresenceOptions;
pub use rows::Present;

/// The alarm that looks for visitors that have timed out.
const ALARM: &str = "presence";

/// Prefix of sockets' tags; the rest is the visitor's name.
const TAG: &str = "presence:";

/// A visitor has come or left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// They were not here before.
    Came(String),
    /// They closed their last socket, left explicitly, or were silent for too long.
    Left(String),
}

/// The visitors that are present in an object. Clones are the same.
#[derive(Clone)]
pub struct Presence(Rc<Inner>);

type Hook = Box<dyn Fn(&Change) -> Result<()>>;

struct Inner {
    ctx: Ctx,
    options: PresenceOptions,
    alarm: WakeUp,
    rows: Rows,
    hook: RefCell<Option<Rc<Hook>>>,
}

impl Presence {
    /// Opens the presence of an object, in its constructor; makes its tables, whose names begin with `presence`, when there
    /// are none. It has the object's alarm `presence`, and its sockets' automatic answer.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if an option is invalid or the object has a presence already, [`ErrorKind::Damaged`] if the
    /// tables are of a version that this program does not know.
    pub fn open(ctx: &Ctx, options: PresenceOptions) -> Result<Self> {
        options.check()?;
        let pair = RequestResponsePair::new(&options.ping, &options.pong)?;
        ctx.set_auto_response(Some(pair))?;
        let inner = Rc::new(Inner {
            ctx: ctx.clone(),
            options,
            alarm: WakeUp::new(ctx, ALARM),
            rows: Rows::open(ctx)?,
            hook: RefCell::default(),
        });
        let (looking, ended) = (Rc::clone(&inner), Rc::clone(&inner));
        ctx.on_end(move || drop(ended.hook.take()));
        ctx.on_alarm(ALARM, move |_| std::future::ready(looking.look()))?;
        Ok(Self(inner))
    }

    /// Sets a function that is called for each change, in the transaction that stores it: what it sends leaves when
    /// the change is on disk. An error rolls the change back and is returned to the caller.
    pub fn on_change(&self, hook: impl Fn(&Change) -> Result<()> + 'static) {
        let hook: Hook = Box::new(hook);
        *self.0.hook.borrow_mut() = Some(Rc::new(hook));
    }

    /// Accepts the WebSocket of a visitor, who is present from now on, and returns it with the response. A visitor may have
    /// several sockets.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] for a name of no or more than [`MAX_WHO_BYTES`](limits::MAX_WHO_BYTES) bytes,
    /// [`ErrorKind::Limit`] if too many are present.
    pub fn enter(&self, who: &str) -> Result<(WebSocket, Response)> {
        let inner = &self.0;
        let was_here = inner.rows.seen_at(who)?.is_some();
        inner.came(who)?;
        let tag = format!("{TAG}{who}");
        let accepted = inner.ctx.accept_websocket(&[&tag]);
        if accepted.is_err() && !was_here {
            // The program was told that they came.
            self.leave(who)?;
        }
        accepted
    }

    /// A heartbeat that came by another way than a WebSocket. The errors are those of [`enter`](Self::enter).
    pub fn beat(&self, who: &str) -> Result<()> {
        self.0.came(who)
    }

    /// To be called in the object's `websocket_close`: a visitor who has closed their last socket cleanly has left.
    /// If it was not closed cleanly, they may return until the timeout.
    pub fn closed(&self, ws: &WebSocket, was_clean: bool) -> Result<()> {
        let Some(who) = who_of(ws) else {
            return Ok(());
        };
        let is_last = self.0.open_sockets(&who).next().is_none();
        if is_last && was_clean {
            return self.leave(&who).map(drop);
        }
        // The socket's last heartbeats are lost with it, but not those of the visitor's other sockets.
        match beaten_at(ws) {
            Some(at) => self.0.rows.seen(&who, at),
            None => Ok(()),
        }
    }

    /// A visitor leaves: their sockets are closed. False if they were not present.
    pub fn leave(&self, who: &str) -> Result<bool> {
        let inner = &self.0;
        for ws in inner.open_sockets(who) {
            ws.close(1_000, "left")?;
        }
        inner.ctx.storage().transaction(|| {
            let was_here = inner.rows.remove(who)?;
            if was_here {
                inner.tell(&Change::Left(who.to_owned()))?;
            }
            Ok(was_here)
        })
    }

    /// The visitors present now, by name, including arrivals and timeouts up to this moment.
    pub fn here(&self) -> Result<Vec<Present>> {
        self.0.look()?;
        self.0.rows.all()
    }

    /// Whose socket this is, if it was accepted here.
    pub fn who(&self, ws: &WebSocket) -> Option<String> {
        who_of(ws)
    }
}

fn who_of(ws: &WebSocket) -> Option<String> {
    let mut tags = ws.tags().into_iter();
    tags.find_map(|tag| tag.strip_prefix(TAG).map(str::to_owned))
}

/// When the gateway last answered a heartbeat on a socket.
fn beaten_at(ws: &WebSocket) -> Option<i64> {
    ws.auto_response_timestamp().map(Timestamp::unix_millis)
}

impl Inner {
    fn came(&self, who: &str) -> Result<()> {
        if let Some(wrong) = wrong_length("the name of a visitor", who, limits::MAX_WHO_BYTES) {
            return Err(Error::with_kind(ErrorKind::Input, wrong));
        }
        let now = now(&self.ctx);
        let storage = self.ctx.storage();
        storage.transaction(|| self.seen(who, now, now))
    }

    fn open_sockets(&self, who: &str) -> impl Iterator<Item = WebSocket> + use<> {
        let sockets = self.ctx.websockets_with_tag(&format!("{TAG}{who}"));
        let sockets = sockets.into_iter();
        sockets.filter(|ws| ws.ready_state() == ReadyState::Open)
    }

    /// How long a visitor counts as present after the last stored heartbeat.
    fn patience(&self) -> i64 {
        let timeout = millis(self.options.timeout);
        timeout + timeout / limits::BEATS_IN_A_TIMEOUT
    }

    /// A sign of life at a time.
    fn seen(&self, who: &str, at: i64, now: i64) -> Result<()> {
        let timeout = millis(self.options.timeout);
        match self.rows.seen_at(who)? {
            // Too little has changed to be worth a write.
            Some(seen_at) if at < seen_at + timeout / limits::BEATS_IN_A_TIMEOUT => Ok(()),
            Some(seen_at) if seen_at + self.patience() > at => self.rows.seen(who, at),
            known => {
                if known.is_some() {
                    // They had timed out, and that was not noticed yet.
                    self.rows.remove(who)?;
                    self.tell(&Change::Left(who.to_owned()))?;
                }
                if self.is_full()? {
                    let max = self.options.max_present;
                    return Err(Error::with_kind(
                        ErrorKind::Limit,
                        format!(
                            "{max} are present already: use several rooms, or raise `max_present`"
                        ),
                    ));
                }
                self.rows.insert(who, at)?;
                self.alarm
                    .not_later_than(now.saturating_add(self.patience()))?;
                self.tell(&Change::Came(who.to_owned()))
            }
        }
    }

    fn is_full(&self) -> Result<bool> {
        Ok(self.rows.count()? >= i64::from(self.options.max_present))
    }

    /// Compares the rows with the sockets' heartbeats, and with the time.
    fn look(&self) -> Result<()> {
        let now = now(&self.ctx);
        let timeout = millis(self.options.timeout);
        let mut beats: BTreeMap<String, i64> = BTreeMap::new();
        let mut has_sockets = false;
        for ws in self.ctx.websockets() {
            if ws.ready_state() != ReadyState::Open {
                continue;
            }
            let Some(who) = who_of(&ws) else {
                continue;
            };
            has_sockets = true;
            if let Some(at) = beaten_at(&ws) {
                let latest = beats.entry(who).or_insert(at);
                *latest = at.max(*latest);
            }
        }
        self.ctx.storage().transaction(|| {
            self.rows.not_after(now)?;
            // Present visitors first: their heartbeats keep them, and those that timed out make room for others.
            let mut back = Vec::new();
            for (who, at) in beats.into_iter().filter(|(_, at)| at + timeout > now) {
                match self.rows.seen_at(&who)? {
                    Some(_) => self.seen(&who, at.min(now), now)?,
                    None => back.push((who, at)),
                }
            }
            let silent_since = now.saturating_sub(self.patience());
            for who in self.rows.remove_silent(silent_since)? {
                self.tell(&Change::Left(who))?;
            }
            for (who, at) in back {
                // In a full room they are added when there is room, and block no departure.
                if !self.is_full()? {
                    self.seen(&who, at.min(now), now)?;
                }
            }
            match self.rows.oldest()? {
                Some(seen_at) => {
                    let silent_at = seen_at.saturating_add(self.patience());
                    self.alarm.set(Some(silent_at))
                }
                // A visitor that has timed out may send heartbeats again, which does not wake the object.
                None if has_sockets => self.alarm.not_later_than(now.saturating_add(timeout)),
                None => self.alarm.set(None),
            }
        })
    }

    fn tell(&self, change: &Change) -> Result<()> {
        let hook = self.hook.borrow().clone();
        hook.map_or(Ok(()), |hook| hook(change))
    }
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presence")
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}
