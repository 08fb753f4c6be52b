//! The object: the seats of one flight on one date.
//!
//! Contract: a seat has at most one occupant and an occupant at most one seat. Taking a seat leaves the previous one in
//! the same transaction: the decision is one poll without an await, so it is atomic, and no other event comes between
//! its reads and its writes. Watchers are notified of each change, in order.
//!
//! A closed flight never changes. Its document is in the archive before the object's own data is deleted; if the
//! process ends in between, the alarm continues with it.

use std::time::Duration;

use abide::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    Cabin, Flight,
    archive::{Closed, archive},
};

/// The storage key of the cabin's shape; absent until the seat map is created.
const CABIN: &str = "cabin";

/// The storage key of a close in progress: the flight, and since when.
const CLOSING: &str = "closing";

/// How long after the close its alarm checks whether the document has reached the archive.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Maximum number of sockets that watch one flight.
pub const MAX_WATCHERS: usize = 1_000;

/// The earliest time zone is this far ahead of UTC: there a day begins first.
const FIRST_ZONE: Duration = Duration::from_hours(14);

/// The seats of one flight on one date.
#[durable_object]
pub struct FlightSeating {
    ctx: Ctx,
}

/// The flight that is being closed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Closing {
    flight: Flight,
    at: u64,
}

/// A message to watchers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// All seats: the first message.
    Seats(Vec<Seat>),
    /// Seats that have changed.
    Changed(Vec<Seat>),
    /// The flight was closed, in milliseconds since 1970: the last message.
    Closed(u64),
}

/// One seat and who sits there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Such as `14C`.
    pub seat: String,
    /// `None` if the seat is free.
    pub occupant: Option<String>,
}

/// Whether a seat map was created or already existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Created {
    /// It was created now.
    Now,
    /// The same one already existed.
    Before,
}

/// A seat that was given to an occupant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    /// The seat.
    pub seat: String,
    /// Who has it now.
    pub occupant: String,
    /// The seat that they had before, which is now free.
    pub moved_from: Option<String>,
}

/// Why the object rejected a call.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub enum SeatingError {
    /// There is no seat map.
    #[error(
        "This flight has no seat map. Create one with PUT and {{\"rows\":30,\"columns\":\"ABCDEF\"}}."
    )]
    NoSeatMap,
    /// The flight has another seat map.
    #[error("This flight already has a seat map with another shape; a seat map cannot be changed.")]
    OtherSeatMap,
    /// The cabin has no such seat.
    #[error("There is no seat {0} on this flight.")]
    NoSuchSeat(String),
    /// Someone else has the seat.
    #[error("Seat {0} is taken.")]
    SeatTaken(String),
    /// The flight was closed.
    #[error("This flight is closed: its seat map is archived and can no longer be changed.")]
    Closed,
    /// The day of the flight has not begun.
    #[error("This flight has not departed: it can be closed once its day has begun.")]
    NotDeparted,
    /// There are too many watchers.
    #[error("This flight already has {MAX_WATCHERS} watchers. Try again later.")]
    TooManyWatch,
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] abide::Error),
}

#[durable_object]
impl DurableObject for FlightSeating {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        // Pages ping to check the connection; that must not wake the object.
        ctx.set_auto_response(Some(RequestResponsePair::new("ping", "pong")?))?;
        Ok(Self { ctx })
    }

    /// Connects a watcher. The router has checked whether they may watch.
    fn fetch(&self, _request: Request) -> Result<Response> {
        let (socket, response) = self.ctx.accept_websocket(&[])?;
        socket.send_json(&News::Seats(self.all()?))?;
        Ok(response)
    }

    /// Watchers send no messages.
    fn websocket_message(&self, _socket: WebSocket, _message: Message) -> Result<()> {
        Ok(())
    }

    /// Continues a close that the process did not survive.
    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        match self.ctx.storage().get::<Closing>(CLOSING)? {
            Some(closing) => self.archive(closing).await.map(drop),
            None => Ok(()),
        }
    }
}

#[rpc]
impl FlightSeating {
    /// Creates the seat map of a flight. Creating the same one again is not an error.
    pub async fn create(&self, flight: Flight, cabin: Cabin) -> Result<Created, SeatingError> {
        if self.cabin()?.is_none() {
            // While the archive is called, no other call may create a seat map and close the flight.
            let archive = archive(self.ctx.env(), &flight);
            let asked = async move { archive.find(flight.designator().to_owned()).await };
            if self.ctx.block_concurrency_while(asked).await?.is_some() {
                return Err(SeatingError::Closed);
            }
        }
        self.must_be_open()?;
        match self.cabin()? {
            None => {
                self.create_seats(&cabin)?;
                Ok(Created::Now)
            }
            Some(present) if present == cabin => Ok(Created::Before),
            Some(_) => Err(SeatingError::OtherSeatMap),
        }
    }

    /// Gives a seat to an occupant, who leaves their previous seat. A seat that they already have they keep.
    pub fn assign_seat(&self, seat: String, occupant: String) -> Result<Assigned, SeatingError> {
        if self.cabin()?.is_none() {
            return Err(SeatingError::NoSeatMap);
        }
        self.must_be_open()?;
        let Some(present) = self.find(&seat)? else {
            return Err(SeatingError::NoSuchSeat(seat));
        };
        let moved_from = match present.occupant {
            None => self.seat(&seat, &occupant)?,
            Some(holder) if holder == occupant => None,
            Some(_) => return Err(SeatingError::SeatTaken(seat)),
        };
        let vacated = moved_from.clone().map(|seat| Seat {
            seat,
            occupant: None,
        });
        let taken = Seat {
            seat: seat.clone(),
            occupant: Some(occupant.clone()),
        };
        self.tell(&News::Changed(vacated.into_iter().chain([taken]).collect()))?;
        Ok(Assigned {
            seat,
            occupant,
            moved_from,
        })
    }

    /// Closes a flight whose day has begun, archives its seat map, and deletes this object's data. Returns the
    /// document.
    pub async fn close(&self, flight: Flight) -> Result<String, SeatingError> {
        if self.cabin()?.is_none() {
            return Err(SeatingError::NoSeatMap);
        }
        let storage = self.ctx.storage();
        let now = self.ctx.env().clock().unix_millis();
        let closing = match storage.get(CLOSING)? {
            Some(closing) => closing,
            None if flight.day_begins() > now.saturating_add(FIRST_ZONE.as_millis() as u64) => {
                return Err(SeatingError::NotDeparted);
            }
            None => {
                let closing = Closing { flight, at: now };
                storage.put(CLOSING, &closing)?;
                storage.set_alarm(LOOK_AGAIN)?;
                closing
            }
        };
        Ok(self.archive(closing).await?)
    }

    /// Rejects a watcher of a flight that does not exist, or has too many watchers.
    pub async fn may_be_watched(&self) -> Result<(), SeatingError> {
        if self.cabin()?.is_none() {
            return Err(SeatingError::NoSeatMap);
        }
        if self.ctx.websockets().len() >= MAX_WATCHERS {
            return Err(SeatingError::TooManyWatch);
        }
        Ok(())
    }

    /// Every seat, from the front, each row in the order of its columns.
    pub async fn seats(&self) -> Result<Vec<Seat>, SeatingError> {
        if self.cabin()?.is_none() {
            return Err(SeatingError::NoSeatMap);
        }
        Ok(self.all()?)
    }
}

/// Storage operations of the methods.
impl FlightSeating {
    /// The cabin's shape. An object is activated by its first call; a flight exists once it has this.
    fn cabin(&self) -> Result<Option<Cabin>> {
        self.ctx.storage().get(CABIN)
    }

    fn must_be_open(&self) -> Result<(), SeatingError> {
        match self.ctx.storage().get::<Closing>(CLOSING)? {
            Some(_) => Err(SeatingError::Closed),
            None => Ok(()),
        }
    }

    /// Passes the flight's document to the archive, and deletes the flight.
    async fn archive(&self, Closing { flight, at }: Closing) -> Result<String> {
        let document = serde_json::to_string(&Closed {
            flight: flight.designator().to_owned(),
            date: flight.date().to_owned(),
            closed_at: at,
            seats: self.all()?,
        })
        .map_err(Error::from_std)?;
        let designator = flight.designator().to_owned();
        archive(self.ctx.env(), &flight)
            .keep(designator, document.clone())
            .await?;
        // Another close may have completed in the meantime.
        if self.cabin()?.is_some() {
            self.tell(&News::Closed(at))?;
            for socket in self.ctx.websockets() {
                let _ = socket.close(1_000, "the flight is closed");
            }
            self.ctx.storage().delete_all()?;
        }
        Ok(document)
    }

    /// Notifies the watchers.
    fn tell(&self, news: &News) -> Result<()> {
        self.ctx.broadcast_json(news)
    }

    fn create_seats(&self, cabin: &Cabin) -> Result<()> {
        let storage = self.ctx.storage();
        storage.transaction(|| {
            let sql = storage.sql();
            sql.exec(
                "CREATE TABLE seats (
                     seat     TEXT PRIMARY KEY,
                     row      INTEGER NOT NULL,
                     place    INTEGER NOT NULL,
                     occupant TEXT UNIQUE
                 ) WITHOUT ROWID",
                (),
            )?;
            for (row, place, seat) in cabin.seats() {
                sql.exec(
                    "INSERT INTO seats (seat, row, place) VALUES (?, ?, ?)",
                    (seat, row, place),
                )?;
            }
            storage.put(CABIN, cabin)
        })
    }

    fn find(&self, seat: &str) -> Result<Option<Seat>> {
        let sql = self.ctx.sql();
        sql.exec("SELECT seat, occupant FROM seats WHERE seat = ?", (seat,))?
            .optional()
    }

    /// Puts the occupant into a free seat. The seat that they had, if they had one.
    fn seat(&self, seat: &str, occupant: &str) -> Result<Option<String>> {
        let storage = self.ctx.storage();
        storage.transaction(|| {
            let sql = storage.sql();
            let left = "UPDATE seats SET occupant = NULL WHERE occupant = ? RETURNING seat";
            let moved_from = sql.exec(left, (occupant,))?.optional()?;
            sql.exec(
                "UPDATE seats SET occupant = ? WHERE seat = ?",
                (occupant, seat),
            )?;
            Ok(moved_from)
        })
    }

    fn all(&self) -> Result<Vec<Seat>> {
        let sql = self.ctx.sql();
        sql.exec("SELECT seat, occupant FROM seats ORDER BY row, place", ())?
            .all()
    }
}
