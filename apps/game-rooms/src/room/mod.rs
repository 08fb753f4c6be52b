//! A room: what a player sends goes to the screen, what the screen sends goes to all players.
//!
//! Contract: one screen has a room, the one with the secret of its creation; a player keeps a number, by the player's own secret,
//! across reloads, lost connections and restarts of the server. Of two sockets with the same secret the later one stays. Messages
//! arrive as they were sent, in the order of their sender; the screen gets each with its player's number and a space in front, which a
//! player cannot forge. No message waits for a disk: the room stores secrets, and messages pass it. Who is here follows from the open
//! sockets, so the object leaves memory while no one sends.
//!
//! A room without its screen ends after a while, and every room after a day: it then gives its code back and deletes itself.

mod entrance;
mod store;

use std::{cell::RefCell, collections::HashMap, sync::Arc, time::Duration};

use abide::{
    ReadyState, handed_over,
    http::{HeaderValue, header},
    prelude::*,
};
use serde_json::json;

use self::{
    entrance::{PLAYERS, Refusal, Seat},
    store::{Room, Store},
};
use crate::{
    GameHub, HUB, Limits,
    limits::{LATE, LIFETIME},
    pace::Pace,
    secret::PROTOCOL,
};

pub use self::entrance::Role;
pub(crate) use self::{entrance::Entrance, store::millis};

/// A room.
#[durable_object]
pub struct GameRoom {
    ctx: Ctx,
    store: Store,
    limits: Arc<Limits>,
    /// By the number of the socket.
    paces: RefCell<HashMap<u64, Pace>>,
}

impl DurableObject for GameRoom {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        // A phone learns from these that the network is gone; they must not wake the object.
        ctx.set_auto_response(Some(RequestResponsePair::new("ping", "pong")?))?;
        Ok(Self {
            store: Store::open(ctx.sql())?,
            ctx,
            limits: env.require()?,
            paces: RefCell::default(),
        })
    }

    /// Seats a client, or closes its socket with the reason: a page cannot see the status of a refused WebSocket.
    async fn fetch(&self, request: Request) -> Result<Response> {
        let entrance: Entrance = handed_over(&request)?;
        let mut response = match self.seat(&entrance)? {
            Ok(seat) => {
                for before in self.open(&seat.tag()) {
                    self.refuse(&before, Refusal::Replaced)?;
                }
                let tag = seat.tag();
                let tags: &[&str] = match seat {
                    Seat::Host => &[&tag],
                    Seat::Player(_) => &[PLAYERS, &tag],
                };
                let (socket, response) = self.ctx.accept_websocket(tags)?;
                socket.set_attachment(&seat)?;
                if let Seat::Player(number) = seat {
                    socket.send(json!({ "you": { "player": number } }).to_string())?;
                }
                self.tell_who_is_here();
                response
            }
            Err(refusal) => {
                let (socket, response) = self.ctx.accept_websocket(&[])?;
                self.refuse(&socket, refusal)?;
                response
            }
        };
        let protocol = HeaderValue::from_static(PROTOCOL);
        response
            .headers_mut()
            .insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        Ok(response)
    }

    async fn websocket_message(&self, socket: WebSocket, message: Message) -> Result<()> {
        // Messages of a socket that was just closed may still arrive.
        if socket.ready_state() != ReadyState::Open {
            return Ok(());
        }
        if message.len() > self.limits.message_bytes as usize {
            return self.refuse(&socket, Refusal::TooLarge);
        }
        if !self.is_slow_enough(&socket) {
            return self.refuse(&socket, Refusal::TooFast);
        }
        let seat = socket.attachment()?;
        let (message, to) = match seat.ok_or("a socket without its seat")? {
            Seat::Host => (message, PLAYERS.to_owned()),
            Seat::Player(number) => (numbered(number, &message), Seat::Host.tag()),
        };
        for other in self.open(&to) {
            // One that closes at this moment hears nothing more.
            let _ = other.send(message.clone());
        }
        Ok(())
    }

    async fn websocket_close(&self, socket: WebSocket, _: Close) -> Result<()> {
        self.paces.borrow_mut().remove(&socket.id());
        let (Some(seat), Some(room)) = (socket.attachment()?, self.store.room()?) else {
            return Ok(());
        };
        let is_replaced = self.open(&Seat::tag(seat)).next().is_some();
        if is_replaced || room.is_over {
            return Ok(());
        }
        match seat {
            Seat::Host => {
                self.store.set_empty(true)?;
                self.look_later(&room)?;
            }
            Seat::Player(number) => self.store.left(number, self.now())?,
        }
        self.tell_who_is_here();
        Ok(())
    }

    /// Ends the room if its screen is away, and was when it was looked at last.
    async fn alarm(&self, info: AlarmInfo) -> Result<()> {
        let Some(room) = self.store.room()? else {
            return Ok(());
        };
        let now = self.now();
        let is_late = now - info.scheduled_time.unix_millis() > millis(LATE);
        let is_old = now >= room.created_at.saturating_add(millis(LIFETIME));
        let is_here = self.open(&Seat::Host.tag()).next().is_some();
        if !room.is_over && !is_old && (is_here || is_late || !room.is_empty) {
            self.store.set_empty(!is_here)?;
            return self.look_later(&room);
        }
        self.end(room.code).await
    }
}

#[rpc]
impl GameRoom {
    /// Opens the room. The client that has the secret with the digest `host` is its screen.
    pub async fn begin(&self, code: String, host: String, created_at: i64) -> Result<()> {
        if self.store.room()?.is_some() {
            return Err("the room is open already; make another".into());
        }
        self.store.begin(&code, &host, created_at)?;
        self.ctx.storage().set_alarm(self.limits.empty_life())
    }
}

impl GameRoom {
    fn seat(&self, entrance: &Entrance) -> Result<Result<Seat, Refusal>> {
        let Some(room) = self.store.room()?.filter(|room| !room.is_over) else {
            return Ok(Err(Refusal::Ended));
        };
        let secret = &entrance.secret;
        if entrance.role == Role::Peer {
            let (most, present) = (self.limits.players, self.present());
            let number = self.store.seat(secret, &present, most, self.now())?;
            return Ok(number.map(Seat::Player).ok_or(Refusal::Full));
        }
        if room.host != *secret {
            return Ok(Err(Refusal::WrongSecret));
        }
        if room.is_empty {
            self.store.set_empty(false)?;
        }
        Ok(Ok(Seat::Host))
    }

    /// The sockets with a tag that may still be sent to.
    fn open(&self, tag: &str) -> impl Iterator<Item = WebSocket> + use<> {
        let sockets = self.ctx.websockets_with_tag(tag).into_iter();
        sockets.filter(|socket| socket.ready_state() == ReadyState::Open)
    }

    fn present(&self) -> Vec<u32> {
        self.open(PLAYERS)
            .filter_map(|socket| match socket.attachment() {
                Ok(Some(Seat::Player(number))) => Some(number),
                _ => None,
            })
            .collect()
    }

    fn is_slow_enough(&self, socket: &WebSocket) -> bool {
        let now = self.ctx.env().clock().now();
        let mut paces = self.paces.borrow_mut();
        let pace = paces.entry(socket.id()).or_default();
        pace.allows(self.limits.messages_per_second, now)
    }

    fn refuse(&self, socket: &WebSocket, refusal: Refusal) -> Result<()> {
        socket.close(refusal.code(), &refusal.reason(&self.limits))
    }

    fn tell_who_is_here(&self) {
        let host = Seat::Host.tag();
        let mut players = self.present();
        players.sort_unstable();
        let is_here = self.open(&host).next().is_some();
        let news = json!({ "room": { "host": is_here, "players": players } });
        let news = Message::from(news.to_string());
        for socket in self.open(&host).chain(self.open(PLAYERS)) {
            let _ = socket.send(news.clone());
        }
    }

    /// Sets the alarm for the next look at whether the screen is here.
    fn look_later(&self, room: &Room) -> Result<()> {
        let ends_at = room.created_at.saturating_add(millis(LIFETIME));
        let left = u64::try_from(ends_at - self.now()).unwrap_or_default();
        let wait = self.limits.empty_life();
        self.ctx
            .storage()
            .set_alarm(wait.min(Duration::from_millis(left)))
    }

    /// Gives the code back and deletes the room. The alarm tries again if the process ends meanwhile.
    async fn end(&self, code: String) -> Result<()> {
        // No one can enter while the hub is asked.
        self.store.set_over()?;
        for socket in self.ctx.websockets() {
            self.refuse(&socket, Refusal::Ended)?;
        }
        let id = self.ctx.id().to_string();
        let hub = self.ctx.env().object::<GameHub>().get_by_name(HUB);
        hub.forget(code, id).await?;
        self.ctx.storage().delete_all()?;
        self.ctx.restart();
        Ok(())
    }

    fn now(&self) -> i64 {
        self.ctx.now().unix_millis()
    }
}

/// A player's message as the screen gets it.
fn numbered(number: u32, message: &Message) -> Message {
    match message {
        Message::Text(text) => Message::from(format!("{number} {text}")),
        Message::Binary(bytes) => {
            let mut numbered = format!("{number} ").into_bytes();
            numbered.extend_from_slice(bytes);
            Message::from(numbered)
        }
    }
}
