//! The object that knows which room has which code.
//!
//! Contract: a code that was given out means the same room for 24 hours, across crashes; then it is free again.

use std::{sync::Arc, time::Duration};

use abide::prelude::*;
use serde::{Deserialize, Serialize};

use crate::Codes;

/// How often a free code is looked for.
pub const ATTEMPTS: usize = 5;

/// How long a code is kept for its room.
pub const LIFETIME: Duration = Duration::from_hours(24);

/// The hub.
#[durable_object]
pub struct GameHub {
    state: State,
    codes: Arc<Codes>,
}

/// A room, as those are told who want to enter it.
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
    /// So many codes in a row were taken.
    #[error("No free code was found in {ATTEMPTS} attempts; try again.")]
    NoFreeCode,
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

impl DurableObject for GameHub {
    fn new(state: State, env: Env) -> Result<Self> {
        state.storage().sql().exec(
            "CREATE TABLE IF NOT EXISTS rooms (
                 code       TEXT PRIMARY KEY,
                 object     TEXT NOT NULL,
                 created_at INTEGER NOT NULL
             ) WITHOUT ROWID",
            (),
        )?;
        Ok(Self {
            state,
            codes: env.require()?,
        })
    }
}

#[rpc]
impl GameHub {
    /// Gives a room a code.
    pub async fn add(&self, object: String) -> Result<RoomRecord, HubError> {
        let now = self.now();
        for _ in 0..ATTEMPTS {
            let code = self.codes.next().map_err(Error::from_std)?.to_string();
            let taken = self.state.storage().sql().exec(
                "INSERT INTO rooms (code, object, created_at) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET object = excluded.object, created_at = excluded.created_at
                     WHERE created_at <= ?4
                 RETURNING code",
                (&code, &object, now, oldest(now)),
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

    /// The room that has a code. One that has had it for too long is forgotten.
    pub async fn find(&self, code: String) -> Result<Option<RoomRecord>> {
        let sql = self.state.storage().sql();
        let known: Option<(String, i64)> = sql
            .exec(
                "SELECT object, created_at FROM rooms WHERE code = ?1",
                (&code,),
            )?
            .optional()?;
        let Some((durable_object_id, created_at)) = known else {
            return Ok(None);
        };
        if created_at <= oldest(self.now()) {
            sql.exec("DELETE FROM rooms WHERE code = ?1", (&code,))?;
            return Ok(None);
        }
        Ok(Some(RoomRecord {
            room_code: code,
            durable_object_id,
            created_at,
        }))
    }
}

impl GameHub {
    fn now(&self) -> i64 {
        i64::try_from(self.state.env().clock().unix_millis()).unwrap_or(i64::MAX)
    }
}

/// Rooms that were made then, or before, are too old.
fn oldest(now: i64) -> i64 {
    now.saturating_sub(i64::try_from(LIFETIME.as_millis()).unwrap_or(i64::MAX))
}
