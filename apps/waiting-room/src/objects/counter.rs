//! The object that hands out numbers: one for each data centre and minute, and one for *Anywhere*. Its name is used again for a later
//! minute, so that the number of objects is bounded.
//!
//! Contract: a number below the bounds admits. A visitor has one number in a minute, however often it is asked for. Once the counter is
//! closed it gives no number, so that the data centre knows every visitor it admitted before it computes the next minute's slots. A
//! number is on disk before it is used. A number that another data centre borrows counts for the bounds; the borrower records its visitor.

use std::time::Duration;

use abide::prelude::*;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::{
    logic::{minute::Minute, report::Lane},
    ticket::VisitorId,
};

/// How long a closed counter is kept. By then the data centre knows every visitor with a number.
const KEPT: Duration = Duration::from_mins(30);

/// How long a counter that is never closed is kept after its first number: its data centre may be down until no session is left of it.
const KEPT_OPEN: Duration = Duration::from_hours(25);

/// Minutes after which a name is used again, when the counter of the earlier minute has usually been forgotten.
const NAMES: u64 = 2_048;

const CLOSED: &str = "closed";

/// The newest minute whose numbers were asked for.
const MINUTE: &str = "minute";

/// The name of the counter of a data centre, or of *Anywhere*.
pub(crate) fn counter_name(room: &str, data_centre: &str, minute: Minute) -> String {
    format!("{room}/{data_centre}/{}", minute.0 % NAMES)
}

/// Hands out the numbers of one data centre and minute.
#[durable_object]
pub struct TicketCounter {
    ctx: Ctx,
}

/// A request for a number.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// Of which minute.
    pub minute: Minute,
    /// Who.
    pub visitor: VisitorId,
    /// Where they stand.
    pub lane: Lane,
    /// Numbers of the lane in this minute; unbounded if absent.
    pub most_in_lane: Option<u64>,
    /// Numbers of all lanes; unbounded if absent.
    pub most: Option<u64>,
    /// For a visitor of another data centre, which records the admission.
    pub is_borrowed: bool,
}

/// The answer to a request for a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Number {
    /// The visitor may enter.
    Given,
    /// All numbers have been given.
    NoneLeft,
    /// The minute is over.
    Closed,
}

#[durable_object]
impl DurableObject for TicketCounter {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        ctx.sql().exec(
            "CREATE TABLE IF NOT EXISTS numbers (visitor BLOB PRIMARY KEY, lane INTEGER NOT NULL,
                 is_borrowed INTEGER NOT NULL) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS lanes (lane INTEGER PRIMARY KEY, given INTEGER NOT NULL)",
            (),
        )?;
        Ok(Self { ctx })
    }

    fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        // The next call finds a new counter, with tables.
        self.ctx.restart();
        self.ctx.storage().delete_all()
    }
}

#[rpc]
impl TicketCounter {
    /// Gives a number, if there is one left.
    pub async fn take(&self, claim: Claim) -> Result<Number> {
        let storage = self.ctx.storage();
        if !self.begin(claim.minute)? || storage.get::<bool>(CLOSED)?.is_some() {
            return Ok(Number::Closed);
        }
        let sql = storage.sql();
        let visitor = &claim.visitor.0[..];
        let has = "SELECT count(*) FROM numbers WHERE visitor = ?";
        if sql.exec(has, (visitor,))?.one::<i64>()? > 0 {
            return Ok(Number::Given);
        }
        let lane = claim.lane.to_column();
        let given = "SELECT given FROM lanes WHERE lane = ?";
        let in_lane = sql.exec(given, (lane,))?.optional::<u64>()?.unwrap_or(0);
        let in_all = "SELECT coalesce(sum(given), 0) FROM lanes";
        let in_all = sql.exec(in_all, ())?.one::<u64>()?;
        let is_left = claim.most_in_lane.is_none_or(|most| in_lane < most)
            && claim.most.is_none_or(|most| in_all < most);
        if !is_left {
            return Ok(Number::NoneLeft);
        }
        if in_all == 0 {
            storage.set_alarm(KEPT_OPEN)?;
        }
        sql.exec(
            "INSERT INTO numbers (visitor, lane, is_borrowed) VALUES (?, ?, ?)",
            (visitor, lane, claim.is_borrowed),
        )?;
        sql.exec(
            "INSERT INTO lanes (lane, given) VALUES (?, 1) ON CONFLICT DO UPDATE SET given = given + 1",
            (lane,),
        )?;
        Ok(Number::Given)
    }

    /// Stops giving numbers, and lists the data centre's visitors with one.
    pub async fn close(&self, minute: Minute) -> Result<Vec<(VisitorId, Lane)>> {
        let storage = self.ctx.storage();
        if self.begin(minute)? && storage.get::<bool>(CLOSED)?.is_none() {
            storage.set_alarm(KEPT)?;
            storage.put(CLOSED, &true)?;
        }
        self.given(minute).await
    }

    /// The data centre's visitors with a number.
    pub async fn given(&self, minute: Minute) -> Result<Vec<(VisitorId, Lane)>> {
        let storage = self.ctx.storage();
        if storage.get(MINUTE)? != Some(minute) {
            return Ok(Vec::new());
        }
        let rows = storage.sql().exec(
            "SELECT visitor, lane FROM numbers WHERE NOT is_borrowed",
            (),
        )?;
        let rows = rows.all::<(ByteBuf, i64)>()?;
        let known = rows.into_iter().filter_map(|(visitor, lane)| {
            let visitor = visitor.into_vec().try_into().ok()?;
            Some((VisitorId(visitor), Lane::from_column(lane)))
        });
        Ok(known.collect())
    }
}

impl TicketCounter {
    /// Begins a minute, unless it has begun, and forgets an earlier one. Returns false if a later one has begun.
    fn begin(&self, minute: Minute) -> Result<bool> {
        let storage = self.ctx.storage();
        let newest = storage.get::<Minute>(MINUTE)?;
        if newest == Some(minute) {
            return Ok(true);
        }
        if newest.is_some_and(|newest| newest > minute) {
            return Ok(false);
        }
        storage.put(MINUTE, &minute)?;
        storage.delete(CLOSED)?;
        storage
            .sql()
            .exec("DELETE FROM numbers; DELETE FROM lanes", ())?;
        Ok(true)
    }
}
