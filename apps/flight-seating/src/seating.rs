//! The object: the seats of one flight on one date.
//!
//! Contract: a seat has at most one occupant and an occupant at most one seat. Whoever takes a seat leaves the one that
//! they had in the same transaction: what decides that is one poll without an await, so it is atomic and no other event comes
//! between its reads and its writes. Whoever watches is told each change, in order.
//!
//! A flight that is closed changes no more. Its document is in the archive before the object's own data is deleted; if the process
//! ends in between, the alarm goes on with it.

use std::time::Duration;

use abide::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    Cabin, Flight,
    archive::{Closed, archive},
};

/// Where the cabin's shape is kept; absent until the seat map is made.
const CABIN: &str = "cabin";

/// Where it is kept that the flight is being closed: which it is, and since when.
const CLOSING: &str = "closing";

/// How long after the close its alarm looks whether the document has reached the archive.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Sockets that watch one flight, at most.
pub const MAX_WATCHERS: usize = 1_000;

/// The earliest time zone is so far ahead of UTC: there a day begins first.
const FIRST_ZONE: Duration = Duration::from_hours(14);

/// The seats of one flight on one date.
#[durable_object]
pub struct FlightSeating {
    state: State,
}

/// The flight that is being closed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Closing {
    flight: Flight,
    at: u64,
}

/// What whoever watches is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// All seats: what one is told first.
    Seats(Vec<Seat>),
    /// Seats that have changed.
    Changed(Vec<Seat>),
    /// The flight was closed, in milliseconds since 1970: there will be no more news.
    Closed(u64),
}

/// One seat and who sits there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Such as `14C`.
    pub seat: String,
    /// Nobody, if the seat is free.
    pub occupant: Option<String>,
}

/// Whether a seat map was made or was there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Created {
    /// It was made now.
    Now,
    /// The same one was there.
    Before,
}

/// A seat that was given to an occupant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    /// The seat.
    pub seat: String,
    /// Who has it now.
    pub occupant: String,
    /// The seat that they had before, which is free now.
    pub moved_from: Option<String>,
}

/// Why the object said no.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub enum SeatingError {
    /// Nobody has made a seat map.
    #[error(
        "This flight has no seat map. Make one with PUT and {{\"rows\":30,\"columns\":\"ABCDEF\"}}."
    )]
    NoSeatMap,
    /// The flight has another seat map.
    #[error("This flight already has a seat map of another shape; a seat map does not change.")]
    OtherSeatMap,
    /// The cabin has no such seat.
    #[error("There is no seat {0} on this flight.")]
    NoSuchSeat(String),
    /// Someone else has the seat.
    #[error("Seat {0} is taken.")]
    SeatTaken(String),
    /// The flight was closed.
    #[error("This flight is closed: its seat map is archived and does not change any more.")]
    Closed,
    /// The day of the flight has not begun.
    #[error("This flight has not departed: it can be closed when its day has begun.")]
    NotDeparted,
    /// Too many watch.
    #[error("{MAX_WATCHERS} watch this flight already. Try again later.")]
    TooManyWatch,
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] abide::Error),
}

impl DurableObject for FlightSeating {
    fn new(state: State, _env: Env) -> Result<Self> {
        // A page asks now and then whether the line still works; nobody needs to wake for that.
        state.set_websocket_auto_response(Some(RequestResponsePair::new("ping", "pong")?))?;
        Ok(Self { state })
    }

    /// Lets somebody watch. The edge has asked whether they may.
    async fn fetch(&self, _request: Request) -> Result<Response> {
        let pair = WebSocketPair::new();
        let socket = self.state.accept_websocket(pair.server, &[])?;
        socket.send(to_text(&News::Seats(self.all()?))?)?;
        Ok(websocket_response(pair.client))
    }

    /// Whoever watches has nothing to say.
    async fn websocket_message(&self, _socket: WebSocket, _message: Message) -> Result<()> {
        Ok(())
    }

    /// Goes on with a close that the process did not survive.
    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        match self.state.storage().get::<Closing>(CLOSING)? {
            Some(closing) => self.archive(closing).await.map(drop),
            None => Ok(()),
        }
    }
}

#[rpc]
impl FlightSeating {
    /// Makes the seat map of a flight. The same one again is no error.
    pub async fn create(&self, flight: Flight, cabin: Cabin) -> Result<Created, SeatingError> {
        if self.cabin()?.is_none() {
            // While the archive is asked nobody else makes a seat map, and closes the flight.
            let archive = archive(self.state.env(), &flight);
            let asked = async move { archive.find(flight.designator().to_owned()).await? };
            if self.state.block_concurrency_while(asked).await?.is_some() {
                return Err(SeatingError::Closed);
            }
        }
        self.must_be_open()?;
        match self.cabin()? {
            None => {
                self.fit_out(&cabin)?;
                Ok(Created::Now)
            }
            Some(present) if present == cabin => Ok(Created::Before),
            Some(_) => Err(SeatingError::OtherSeatMap),
        }
    }

    /// Gives a seat to an occupant, who leaves the seat that they had. What they have already they keep.
    pub async fn assign_seat(
        &self,
        seat: String,
        occupant: String,
    ) -> Result<Assigned, SeatingError> {
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

    /// Closes a flight whose day has begun, archives its seat map, and deletes all that this object has. The document.
    pub async fn close(&self, flight: Flight) -> Result<String, SeatingError> {
        if self.cabin()?.is_none() {
            return Err(SeatingError::NoSeatMap);
        }
        let storage = self.state.storage();
        let now = self.state.env().clock().unix_millis();
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

    /// Refuses one who would watch a flight that there is not, or that too many watch.
    pub async fn may_be_watched(&self) -> Result<(), SeatingError> {
        if self.cabin()?.is_none() {
            return Err(SeatingError::NoSeatMap);
        }
        if self.state.get_websockets(None).len() >= MAX_WATCHERS {
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

/// What the methods ask of the storage.
impl FlightSeating {
    /// The cabin's shape. An object comes to life when it is first asked; a flight exists once it has this.
    fn cabin(&self) -> Result<Option<Cabin>> {
        self.state.storage().get(CABIN)
    }

    fn must_be_open(&self) -> Result<(), SeatingError> {
        match self.state.storage().get::<Closing>(CLOSING)? {
            Some(_) => Err(SeatingError::Closed),
            None => Ok(()),
        }
    }

    /// Hands the flight's document to the archive, and forgets the flight.
    async fn archive(&self, Closing { flight, at }: Closing) -> Result<String> {
        let document = serde_json::to_string(&Closed {
            flight: flight.designator().to_owned(),
            date: flight.date().to_owned(),
            closed_at: at,
            seats: self.all()?,
        })
        .map_err(Error::from_std)?;
        let designator = flight.designator().to_owned();
        archive(self.state.env(), &flight)
            .keep(designator, document.clone())
            .await??;
        // Another close may have come to its end meanwhile.
        if self.cabin()?.is_some() {
            self.tell(&News::Closed(at))?;
            for socket in self.state.get_websockets(None) {
                let _ = socket.close(1_000, "the flight is closed");
            }
            self.state.storage().delete_all()?;
        }
        Ok(document)
    }

    /// Tells whoever watches.
    fn tell(&self, news: &News) -> Result<()> {
        let text = Message::from(to_text(news)?);
        for socket in self.state.get_websockets(None) {
            // One that closes at this moment hears nothing more.
            let _ = socket.send(text.clone());
        }
        Ok(())
    }

    fn fit_out(&self, cabin: &Cabin) -> Result<()> {
        let storage = self.state.storage();
        storage.transaction_sync(|| {
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
        let sql = self.state.storage().sql();
        sql.exec("SELECT seat, occupant FROM seats WHERE seat = ?", (seat,))?
            .optional()
    }

    /// Puts the occupant into a free seat. The seat that they had, if they had one.
    fn seat(&self, seat: &str, occupant: &str) -> Result<Option<String>> {
        let storage = self.state.storage();
        storage.transaction_sync(|| {
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
        let sql = self.state.storage().sql();
        sql.exec("SELECT seat, occupant FROM seats ORDER BY row, place", ())?
            .to_array()
    }
}

fn to_text(news: &News) -> Result<String> {
    serde_json::to_string(news).map_err(Error::from_std)
}
