//! The object that knows which room has which code.
//!
//! Contract: a code that was given out means the same room until the room ends, across crashes; then it is free again. A code is
//! reserved for a minute first, so a request that ends between the hub and the room leaves nothing behind. A client has a limited
//! number of rooms at a time.

use std::sync::Arc;

use abide::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Codes, Limits,
    limits::{ATTEMPTS, LIFETIME, RESERVED, SWEPT},
    room::millis,
};

/// The hub.
#[durable_object]
pub struct GameHub {
    ctx: Ctx,
    codes: Arc<Codes>,
    limits: Arc<Limits>,
}

/// A room as listed to players.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoomRecord {
    /// Its code.
    pub room_code: String,
    /// The id of its object.
    pub durable_object_id: String,
    /// When it was made, in milliseconds since 1970.
    pub created_at: i64,
}

/// Why the hub gave no code.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum HubError {
    /// All codes that were drawn were taken.
    #[error("No free code was found in {ATTEMPTS} attempts; try again.")]
    NoFreeCode,
    /// The client has as many rooms as it may have.
    #[error(
        "This client has {most} rooms, the most that one client may have; a room ends {minutes} minutes after its page was \
         closed. The option --rooms-per-client sets the limit."
    )]
    TooManyRooms {
        /// Rooms that a client may have.
        most: u32,
        /// Minutes until an empty room ends.
        minutes: u32,
    },
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

impl DurableObject for GameHub {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        ctx.sql().exec(
            "CREATE TABLE IF NOT EXISTS rooms (
                 code       TEXT PRIMARY KEY,
                 object     TEXT NOT NULL,
                 client     TEXT NOT NULL,
                 created_at INTEGER NOT NULL,
                 until      INTEGER NOT NULL
             ) WITHOUT ROWID;
             CREATE INDEX IF NOT EXISTS rooms_until ON rooms (until);
             CREATE INDEX IF NOT EXISTS rooms_client ON rooms (client, until);",
            (),
        )?;
        Ok(Self {
            ctx,
            codes: env.require()?,
            limits: env.require()?,
        })
    }
}

#[rpc]
impl GameHub {
    /// Reserves a code for a room that a client is about to open.
    pub async fn reserve(&self, object: String, client: String) -> Result<RoomRecord, HubError> {
        let (now, sql) = (self.now(), self.ctx.sql());
        sql.exec(
            "DELETE FROM rooms WHERE code IN (SELECT code FROM rooms WHERE until <= ? LIMIT ?)",
            (now, SWEPT),
        )?;
        let rooms: u32 = sql
            .exec(
                "SELECT count(*) FROM rooms WHERE client = ? AND until > ?",
                (&client, now),
            )?
            .one()?;
        if rooms >= self.limits.rooms_per_client {
            return Err(HubError::TooManyRooms {
                most: self.limits.rooms_per_client,
                minutes: self.limits.empty_minutes,
            });
        }
        for _ in 0..ATTEMPTS {
            let code = self.codes.next().map_err(Error::from_std)?.to_string();
            let taken = sql.exec(
                "INSERT INTO rooms (code, object, client, created_at, until) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET object = excluded.object, client = excluded.client,
                         created_at = excluded.created_at, until = excluded.until
                     WHERE until <= ?4
                 RETURNING code",
                (&code, &object, &client, now, now + millis(RESERVED)),
            )?;
            if taken.optional::<String>()?.is_some() {
                return Ok(RoomRecord {
                    room_code: code,
                    durable_object_id: object,
                    created_at: now,
                });
            }
        }
        Err(HubError::NoFreeCode)
    }

    /// The room has opened and keeps its code. False if the reservation has expired.
    pub async fn keep(&self, code: String, object: String) -> Result<bool> {
        let now = self.now();
        let kept = self.ctx.sql().exec(
            "UPDATE rooms SET until = created_at + ?1 WHERE code = ?2 AND object = ?3 AND until > ?4 RETURNING code",
            (millis(LIFETIME), &code, &object, now),
        )?;
        Ok(kept.optional::<String>()?.is_some())
    }

    /// The room has ended: its code is free.
    pub async fn forget(&self, code: String, object: String) -> Result<()> {
        self.ctx.sql().exec(
            "DELETE FROM rooms WHERE code = ? AND object = ?",
            (&code, &object),
        )?;
        Ok(())
    }

    /// The room that has a code.
    pub async fn find(&self, code: String) -> Result<Option<RoomRecord>> {
        let known: Option<(String, i64)> = self
            .ctx
            .sql()
            .exec(
                "SELECT object, created_at FROM rooms WHERE code = ? AND until > ?",
                (&code, self.now()),
            )?
            .optional()?;
        Ok(known.map(|(durable_object_id, created_at)| RoomRecord {
            room_code: code,
            durable_object_id,
            created_at,
        }))
    }
}

impl GameHub {
    fn now(&self) -> i64 {
        self.ctx.now().unix_millis()
    }
}
