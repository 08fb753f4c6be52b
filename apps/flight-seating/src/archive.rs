//! The object that keeps the documents of closed flights of one date.
//!
//! Contract: an archived document never changes. Archiving the same one again has no effect.

use abide::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{Flight, Seat};

/// The documents of one date.
#[durable_object]
pub struct FlightArchive {
    ctx: Ctx,
}

/// The archived JSON document of a closed flight, as clients get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The flight's designator.
    pub flight: String,
    /// Its date.
    pub date: String,
    /// When it was closed, in milliseconds since 1970.
    pub closed_at: u64,
    /// Every seat, from the front.
    pub seats: Vec<Seat>,
}

/// The archive that a flight's document is in.
pub(crate) fn archive(env: &Env, flight: &Flight) -> Stub<FlightArchive> {
    env.object::<FlightArchive>().get_by_name(flight.date())
}

impl DurableObject for FlightArchive {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[rpc]
impl FlightArchive {
    /// Archives a flight's document, unless there is one.
    pub async fn keep(&self, flight: String, document: String) -> Result<()> {
        let storage = self.ctx.storage();
        if storage.get::<String>(&flight)?.is_none() {
            storage.put(&flight, &document)?;
        }
        Ok(())
    }

    /// A flight's document, if it was closed.
    pub async fn find(&self, flight: String) -> Result<Option<String>> {
        self.ctx.storage().get(&flight)
    }
}
