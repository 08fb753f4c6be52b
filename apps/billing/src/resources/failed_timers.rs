//! The object that lists timers of subscriptions that were given up, or have failed for a long time.

use abide::prelude::*;
use serde::{Deserialize, Serialize};

use crate::Time;

/// The name of the only object.
const ALL: &str = "all";

/// Maximum number of entries; the oldest are removed, but stay in the log and among their subscription's timers.
const MAX_KEPT: i64 = 10_000;

/// A timer that was given up, or has failed for a long time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTimer {
    /// The subscription's id.
    pub subscription: String,
    /// The timer's name.
    pub timer: String,
    /// What went wrong.
    pub error: String,
    /// Since when.
    pub since: Time,
}

/// Such timers of all subscriptions, in one object. Each is verified with its subscription before it is shown.
#[durable_object]
pub struct FailedTimers {
    ctx: Ctx,
}

/// The list.
pub(crate) fn failed_timers(env: &Env) -> Stub<FailedTimers> {
    env.object::<FailedTimers>().get_by_name(ALL)
}

impl DurableObject for FailedTimers {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        ctx.sql().exec(
            "CREATE TABLE IF NOT EXISTS failed_timers (
                 number INTEGER PRIMARY KEY, subscription TEXT NOT NULL, timer TEXT NOT NULL, error TEXT NOT NULL,
                 since INTEGER NOT NULL, UNIQUE (subscription, timer)
             )",
            (),
        )?;
        Ok(Self { ctx })
    }
}

#[rpc]
impl FailedTimers {
    /// Adds a timer.
    pub async fn note(&self, failed: FailedTimer) -> Result<()> {
        let sql = self.ctx.sql();
        sql.exec(
            "INSERT INTO failed_timers (subscription, timer, error, since) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET error = excluded.error",
            (
                &failed.subscription,
                &failed.timer,
                &failed.error,
                failed.since.0,
            ),
        )?;
        let old = "DELETE FROM failed_timers WHERE number <= (SELECT max(number) FROM failed_timers) - ?1";
        sql.exec(old, (MAX_KEPT,)).map(drop)
    }

    /// Removes a timer: it has succeeded since, or is no longer needed.
    pub async fn forget(&self, subscription: String, timer: String) -> Result<()> {
        let sql = self.ctx.sql();
        let one = "DELETE FROM failed_timers WHERE subscription = ?1 AND timer = ?2";
        sql.exec(one, (&subscription, &timer)).map(drop)
    }

    /// The newest entries, up to a limit.
    pub async fn list(&self, limit: i64) -> Result<Vec<FailedTimer>> {
        let sql = self.ctx.sql();
        let newest = "SELECT subscription, timer, error, since FROM failed_timers ORDER BY number DESC LIMIT ?1";
        sql.exec(newest, (limit,))?.all()
    }
}
