//! The class: one limiter.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use abide::prelude::*;

use super::{Limit, LimiterError, LimiterOptions, Verdict, usage::Usage};
use crate::patterns::{
    limits::{MAX_LIMITER_KEY_BYTES, MAX_LIMITER_KEYS},
    now, wrong_length,
};
use abide_component::WakeUp;

/// Where the counts are saved.
const SAVED: &str = "usage";

/// The alarm that deletes counts that no longer matter.
const ALARM: &str = "limiter";

/// A rate limiter. Its name says who is limited.
#[durable_object]
pub struct RateLimiter {
    inner: Rc<Inner>,
}

impl std::fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimiter")
            .field("ctx", &self.inner.ctx)
            .finish_non_exhaustive()
    }
}

struct Inner {
    ctx: Ctx,
    options: LimiterOptions,
    alarm: WakeUp,
    /// The use of each key. Keys that were not used lately may be missing.
    usages: RefCell<BTreeMap<String, Usage>>,
    /// True while a background task is about to save.
    will_save: Cell<bool>,
}

impl DurableObject for RateLimiter {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let options = env
            .get::<LimiterOptions>()
            .map(|options| (*options).clone());
        let usages = ctx.storage().get(SAVED)?.unwrap_or_default();
        let inner = Rc::new(Inner {
            alarm: WakeUp::new(&ctx, ALARM),
            options: options.unwrap_or_default(),
            usages: RefCell::new(usages),
            will_save: Cell::new(false),
            ctx,
        });
        let cleaning = Rc::clone(&inner);
        inner
            .ctx
            .on_alarm(ALARM, move |_| std::future::ready(cleaning.clean_up()))?;
        Ok(Self { inner })
    }
}

#[rpc]
impl RateLimiter {
    /// Admits one request under a key, and counts it; or refuses it, which does not count.
    pub async fn check(&self, key: String, limit: Limit) -> Result<Verdict, LimiterError> {
        self.inner.take(key, &limit, 1)
    }

    /// The same for a request that counts as several: all or none.
    pub async fn take(
        &self,
        key: String,
        limit: Limit,
        count: u32,
    ) -> Result<Verdict, LimiterError> {
        self.inner.take(key, &limit, count)
    }

    /// Forgets what a key has used, such as failed logins after one that succeeded.
    pub async fn forget(&self, key: String) -> Result<(), LimiterError> {
        if self.inner.usages.borrow_mut().remove(&key).is_some() {
            self.inner.save_later()?;
        }
        Ok(())
    }
}

impl Inner {
    fn take(
        self: &Rc<Self>,
        key: String,
        limit: &Limit,
        count: u32,
    ) -> Result<Verdict, LimiterError> {
        if let Some(wrong) = wrong_length("the key", &key, MAX_LIMITER_KEY_BYTES) {
            return Err(LimiterError::Invalid(wrong));
        }
        limit.check(count)?;
        let now = now(&self.ctx);
        let mut usages = self.usages.borrow_mut();
        if !usages.contains_key(&key) && usages.len() >= MAX_LIMITER_KEYS {
            usages.retain(|_, usage| usage.ends_at() > now);
            if usages.len() >= MAX_LIMITER_KEYS {
                return Err(LimiterError::TooManyKeys {
                    max: MAX_LIMITER_KEYS,
                });
            }
        }
        let usage = usages.entry(key).or_insert_with(|| Usage::none(limit));
        let verdict = usage.take(limit, count, now);
        drop(usages);
        if let Verdict::Admitted { .. } = verdict {
            self.save_later()?;
        }
        Ok(verdict)
    }

    /// Schedules saving the counts. Until then the object stays in memory.
    fn save_later(self: &Rc<Self>) -> Result<()> {
        let after = self.options.save_after;
        if after.is_zero() {
            return self.save();
        }
        if self.will_save.replace(true) {
            return Ok(());
        }
        let inner = Rc::clone(self);
        let clock = self.ctx.env().clock();
        let sleep = clock.sleep_until(clock.now() + after);
        let saving = self.ctx.spawn(async move {
            sleep.await;
            inner.will_save.set(false);
            if let Err(error) = inner.save() {
                tracing::warn!(id = %inner.ctx.id(), %error, "a rate limiter could not save its counts; it continues with those in memory");
            }
        });
        if saving.is_err() {
            self.will_save.set(false);
        }
        saving
    }

    fn save(&self) -> Result<()> {
        let storage = self.ctx.storage();
        let Some(ends_at) = self.drop_old() else {
            // Counts that expired before they were saved leave no trace.
            return match storage.get::<BTreeMap<String, Usage>>(SAVED)? {
                Some(_) => storage.delete_all(),
                None => Ok(()),
            };
        };
        storage.put(SAVED, &*self.usages.borrow())?;
        // The alarm checks again when it goes off, so it need not move each time.
        match self.alarm.get()? {
            Some(_) => Ok(()),
            None => self.alarm.set(Some(ends_at)),
        }
    }

    /// Forgets counts that no longer matter; returns until when the rest count.
    fn drop_old(&self) -> Option<i64> {
        let now = now(&self.ctx);
        let mut usages = self.usages.borrow_mut();
        usages.retain(|_, usage| usage.ends_at() > now);
        usages.values().map(Usage::ends_at).max()
    }

    fn clean_up(&self) -> Result<()> {
        match self.drop_old() {
            Some(ends_at) => self.alarm.set(Some(ends_at)),
            None => self.ctx.storage().delete_all(),
        }
    }
}
