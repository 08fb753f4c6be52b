//! Objects that delete themselves when they have not been used for a while.
//!
//! An object that holds a [`Cleanup`] says when it is used ([`Cleanup::used`]). When it has not been for the time of
//! [`CleanupOptions::after`], its alarm deletes all that it stores, and restarts it: the next call finds a new object.
//!
//! Nothing is deleted that still has to do something: an object with open WebSockets, with an alarm, its own or of
//! another component (a timer), or with an outbox that holds messages that have not ended, dead letters, fan-outs that
//! are not done or failed callbacks counts as used. Messages that were sent do not keep it. A hook ([`Cleanup::open_with`]) can refuse too, or
//! archive what is about to go.
//!
//! ```
//! use abide::prelude::*;
//! use abide::patterns::cleanup::{Cleanup, CleanupOptions};
//! use std::time::Duration;
//!
//! #[durable_object]
//! struct Cart {
//!     ctx: Ctx,
//!     cleanup: Cleanup,
//! }
//!
//! impl DurableObject for Cart {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         let month = CleanupOptions::default().after(Duration::from_secs(30 * 86_400));
//!         let cleanup = Cleanup::open(&ctx, month)?;
//!         Ok(Self { ctx, cleanup })
//!     }
//! }
//!
//! #[rpc]
//! impl Cart {
//!     pub async fn put(&self, article: String, count: u32) -> Result<()> {
//!         self.cleanup.used()?;
//!         self.ctx.storage().put(&article, &count)
//!     }
//! }
//! # fn main() {}
//! ```

use std::{rc::Rc, time::Duration};

use abide_macros::Setters;

use abide::{Ctx, Error, ErrorKind, Result};

use super::{
    limits::{MAX_KEPT_UNUSED, MIN_KEPT_UNUSED, USES_IN_A_LIFE},
    now,
};
use abide_component::{WakeUp, numbers::millis};

/// Its alarm: when the object is to be deleted, unless it is used.
const ALARM: &str = "cleanup";

/// When an object deletes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct CleanupOptions {
    /// How long after the last use the object is deleted. Uses are stored once in a sixteenth of this time, so that
    /// not every use is a write: the object may be deleted this much earlier. Default 30 days.
    pub after: Duration,
}

impl Default for CleanupOptions {
    fn default() -> Self {
        Self {
            after: Duration::from_hours(30 * 24),
        }
    }
}

/// What is to happen to an unused object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is deleted.
    Delete,
    /// It is kept as if it had just been used.
    Keep,
}

/// Deletes its object when it has not been used for a while. Clones are the same.
#[derive(Clone, Debug)]
pub struct Cleanup {
    ctx: Ctx,
    alarm: WakeUp,
    after: i64,
}

impl Cleanup {
    /// Opens it in the object's constructor. It uses the object's alarm `cleanup`, and no table. An object that has never been
    /// used has no alarm, and is not written for it.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if an option is invalid, or the object has such a component already.
    pub fn open(ctx: &Ctx, options: CleanupOptions) -> Result<Self> {
        Self::open_with(ctx, options, || Ok(Decision::Delete))
    }

    /// The same with a hook that is called just before the object is deleted, and can archive what it stores. If the
    /// hook fails, the error is logged and the hook is called again, at most a minute later.
    ///
    /// What the hook writes is deleted with the rest; calls that it makes leave when the deletion is durable.
    pub fn open_with(
        ctx: &Ctx,
        options: CleanupOptions,
        hook: impl Fn() -> Result<Decision> + 'static,
    ) -> Result<Self> {
        if !(MIN_KEPT_UNUSED..=MAX_KEPT_UNUSED).contains(&options.after) {
            return Err(Error::with_kind(
                ErrorKind::Input,
                format!(
                    "an unused object is kept for {} s to {} days",
                    MIN_KEPT_UNUSED.as_secs(),
                    MAX_KEPT_UNUSED.as_secs() / 86_400
                ),
            ));
        }
        let cleanup = Self {
            ctx: ctx.clone(),
            alarm: WakeUp::new(ctx, ALARM),
            after: millis(options.after),
        };
        let (going, hook) = (cleanup.clone(), Rc::new(hook));
        ctx.on_alarm(ALARM, move |_| std::future::ready(going.go(&*hook)))?;
        // Its own alarm is no work.
        ctx.has_duties(ALARM, || Ok(false));
        Ok(cleanup)
    }

    /// Records that the object is used now. Writes nothing shortly after the last use.
    pub fn used(&self) -> Result<()> {
        let at = now(&self.ctx).saturating_add(self.after);
        let set = self.alarm.get()?;
        let is_enough = |set: i64| set <= at && at - set < (self.after / USES_IN_A_LIFE).max(1);
        match set {
            Some(set) if is_enough(set) => Ok(()),
            _ => self.alarm.set(Some(at)),
        }
    }

    /// When the object is deleted if it is not used again, in milliseconds since 1970. `None` if it has never been
    /// used.
    pub fn goes_at(&self) -> Result<Option<i64>> {
        self.alarm.get()
    }

    /// The alarm: the object is unused, or was used while the alarm waited.
    fn go(&self, hook: &dyn Fn() -> Result<Decision>) -> Result<()> {
        if self.alarm.get()?.is_some() {
            return Ok(());
        }
        let has_to_do = self.ctx.has_work()? || !self.ctx.websockets().is_empty();
        if has_to_do || hook()? == Decision::Keep {
            return self.used();
        }
        self.ctx.storage().delete_all()?;
        // The next event finds a new object, whose constructor makes its tables.
        self.ctx.restart();
        Ok(())
    }
}
