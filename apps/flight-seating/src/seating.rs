//! The object: the seats of one flight on one date.
//!
//! Contract: a seat has at most one occupant and an occupant at most one seat. Whoever takes a seat leaves the one that
//! they had in the same transaction. Every method is one poll without an await, so it is atomic and no other event comes
//! between its reads and its writes.

use abide::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Cabin;

/// Where the cabin's shape is kept; absent until the seat map is made.
const CABIN: &str = "cabin";

/// The seats of one flight on one date.
#[durable_object]
pub struct FlightSeating {
    state: State,
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
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] abide::Error),
}

impl DurableObject for FlightSeating {
    fn new(state: State, _env: Env) -> Result<Self> {
        Ok(Self { state })
    }
}

#[rpc]
impl FlightSeating {
    /// Makes the seat map. The same one again is no error.
    pub async fn create(&self, cabin: Cabin) -> Result<Created, SeatingError> {
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
        let Some(present) = self.find(&seat)? else {
            return Err(SeatingError::NoSuchSeat(seat));
        };
        let moved_from = match present.occupant {
            None => self.seat(&seat, &occupant)?,
            Some(holder) if holder == occupant => None,
            Some(_) => return Err(SeatingError::SeatTaken(seat)),
        };
        Ok(Assigned {
            seat,
            occupant,
            moved_from,
        })
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
