//! How much one address may write.

use std::{sync::Arc, time::Duration};

use abide::prelude::*;

use crate::{desk::now, settings::Settings};

/// An address, with the time at which it may write as much as ever again. An object without it is not stored.
#[durable_object]
pub struct Visitor {
    ctx: Ctx,
    settings: Arc<Settings>,
}

#[durable_object]
impl DurableObject for Visitor {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            settings: env.require()?,
        })
    }

    /// The address has been quiet for long enough to be forgotten.
    fn alarm(&self, _: AlarmInfo) -> Result<()> {
        self.ctx.storage().delete_all()
    }
}

#[rpc]
impl Visitor {
    /// Counts a request. `Some` refuses it: the address may write again after this wait.
    pub async fn admit(&self) -> Result<Option<Duration>> {
        let (storage, now) = (self.ctx.storage(), now(&self.ctx));
        let every = i64::try_from(self.settings.write_every.as_millis()).unwrap_or(i64::MAX);
        // Each request moves the time by one interval, and it may run ahead by a burst of them.
        let ahead = every.saturating_mul(i64::from(self.settings.write_burst.max(1)) - 1);
        let mut free_at = storage.get::<i64>("free at")?.unwrap_or(0).max(now);
        // It is further than after a whole burst only if the clock was set back: then waits are counted from the new time.
        let latest = now.saturating_add(ahead).saturating_add(every);
        if free_at > latest {
            free_at = latest;
            storage.put("free at", &free_at)?;
            storage.set_alarm(free_at)?;
        }
        let wait = (free_at - now).saturating_sub(ahead);
        if let Ok(wait @ 1..) = u64::try_from(wait) {
            return Ok(Some(Duration::from_millis(wait)));
        }
        storage.put("free at", &(free_at + every))?;
        storage.set_alarm(free_at + every)?;
        Ok(None)
    }
}
