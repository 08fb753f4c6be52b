//! The class: one lock.

use std::{cell::RefCell, collections::VecDeque, rc::Rc, time::Duration};

use abide::{TimelineId, prelude::*};
use futures_util::future::{Either, select};
use tokio::sync::oneshot;

use super::{
    Lease, LockError, Token,
    record::{self, Record},
};
use crate::patterns::{limits, now, wrong_length};
use abide_component::{WakeUp, numbers::millis};

/// The alarm that ends leases.
const ALARM: &str = "lock";

/// A lock: its name is that of the resource.
#[durable_object]
pub struct Lock {
    inner: Rc<Inner>,
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock")
            .field("ctx", &self.inner.ctx)
            .finish_non_exhaustive()
    }
}

struct Inner {
    ctx: Ctx,
    alarm: WakeUp,
    /// Waiting calls, in the order in which they came.
    waiting: RefCell<VecDeque<Waiter>>,
}

struct Waiter {
    holder: String,
    lease: Duration,
    granted: oneshot::Sender<Lease>,
}

impl DurableObject for Lock {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let inner = Rc::new(Inner {
            alarm: WakeUp::new(&ctx, ALARM),
            waiting: RefCell::default(),
            ctx,
        });
        let ending = Rc::clone(&inner);
        inner.ctx.on_alarm(ALARM, move |info| {
            std::future::ready(ending.went_off(info.scheduled_time.unix_millis()))
        })?;
        let forking = Rc::clone(&inner);
        inner.ctx.on_timeline(move |timeline| {
            if timeline.is_fork() {
                // The lease is of the original.
                forking.ctx.storage().delete(record::KEY)?;
            }
            Ok(())
        });
        Ok(Self { inner })
    }
}

#[rpc]
impl Lock {
    /// Gives the lock to a holder for a time. If that holder has it already, its lease keeps its token and lasts this
    /// long from now: a call whose answer was lost can be repeated. So each holder needs its own name, such as one
    /// for each attempt at its work.
    ///
    /// The error is [`LockError::Held`] if another has it.
    pub async fn acquire(&self, holder: String, lease: Duration) -> Result<Lease, LockError> {
        self.inner.acquire(holder, lease)
    }

    /// The same, but waits for the lock if another has it; the longest waiter is next. The error is
    /// [`LockError::Held`] if the time is over.
    ///
    /// If the object is reset or the process ends, the wait ends and the call fails: repeat it. A caller that has
    /// dropped its call still gets the lock, and has it until its lease ends.
    pub async fn acquire_within(
        &self,
        holder: String,
        lease: Duration,
        wait: Duration,
    ) -> Result<Lease, LockError> {
        let inner = &self.inner;
        if wait > limits::MAX_LOCK_WAIT {
            return Err(LockError::Invalid(format!(
                "a call waits for a lock for at most {} s: call again when it is over",
                limits::MAX_LOCK_WAIT.as_secs()
            )));
        }
        let held = match inner.acquire(holder.clone(), lease) {
            Err(LockError::Held { .. }) if !wait.is_zero() => {
                inner.wait_for(holder.clone(), lease)?
            }
            decided => return decided,
        };
        let clock = inner.ctx.env().clock();
        let over = clock.sleep_until(clock.now() + wait);
        let given = match select(held, over).await {
            Either::Left((given, _)) => given.ok(),
            // It may have been given at this moment.
            Either::Right(((), mut held)) => held.try_recv().ok(),
        };
        given.map_or_else(|| inner.acquire(holder, lease), Ok)
    }

    /// Extends a lease to last this long from now.
    ///
    /// The error is [`LockError::Lost`] if it has ended.
    pub async fn renew(&self, token: Token, lease: Duration) -> Result<Lease, LockError> {
        check_lease(lease)?;
        let inner = &self.inner;
        inner.must_act()?;
        let now = now(&inner.ctx);
        let mut record = inner.load(now)?;
        let Some(held) = record.held_with(token) else {
            return Err(LockError::Lost { token });
        };
        held.expires_at = now.saturating_add(millis(lease));
        let held = held.clone();
        inner.store(&record)?;
        Ok(held)
    }

    /// Frees the lock. False if the lease with this token has ended already, so the call can be repeated.
    pub async fn release(&self, token: Token) -> Result<bool, LockError> {
        let inner = &self.inner;
        let now = now(&inner.ctx);
        let mut record = inner.load(now)?;
        if record.held_with(token).is_none() {
            return Ok(false);
        }
        record.lease = None;
        record.free_since = now;
        inner.give_to_next(&mut record, now)?;
        Ok(true)
    }

    /// Who holds the lock.
    pub async fn holder(&self) -> Result<Option<Lease>, LockError> {
        let inner = &self.inner;
        Ok(inner.load(now(&inner.ctx))?.lease)
    }
}

impl Inner {
    fn load(&self, now: i64) -> Result<Record> {
        Record::load(self.ctx.storage(), now)
    }

    /// Sets the alarm for the end of the lease; or, if the lock is free, for when it can be forgotten.
    fn store(&self, record: &Record) -> Result<()> {
        record.store(self.ctx.storage())?;
        let at = match &record.lease {
            Some(lease) => lease.expires_at,
            None => forgotten_at(record),
        };
        self.alarm.set(Some(at))
    }

    fn timeline(&self) -> TimelineId {
        self.ctx.timeline().id()
    }

    /// Refuses on behalf of a dormant lock.
    fn must_act(&self) -> Result<(), LockError> {
        if self.ctx.is_dormant() {
            return Err(LockError::Dormant);
        }
        Ok(())
    }

    fn acquire(&self, holder: String, lease: Duration) -> Result<Lease, LockError> {
        check_lease(lease)?;
        self.must_act()?;
        if let Some(wrong) = wrong_length("the holder's name", &holder, limits::MAX_HOLDER_BYTES) {
            return Err(LockError::Invalid(wrong));
        }
        let now = now(&self.ctx);
        let mut record = self.load(now)?;
        if record.lease.is_none() && !self.waiting.borrow().is_empty() {
            // The lease has ended, and its alarm has not gone off yet.
            self.give_to_next(&mut record, now)?;
        }
        let expires_at = now.saturating_add(millis(lease));
        let lease = match &mut record.lease {
            Some(held) if held.holder == holder => {
                held.expires_at = expires_at;
                held.clone()
            }
            Some(held) => return Err(held_by(held)),
            None => record.grant(holder, self.timeline(), now, expires_at),
        };
        self.store(&record)?;
        Ok(lease)
    }

    fn wait_for(
        &self,
        holder: String,
        lease: Duration,
    ) -> Result<oneshot::Receiver<Lease>, LockError> {
        let mut waiting = self.waiting.borrow_mut();
        // Those whose time is over have left.
        waiting.retain(|waiter| !waiter.granted.is_closed());
        if waiting.len() >= limits::MAX_LOCK_WAITERS {
            return Err(LockError::TooManyWaiters {
                max: limits::MAX_LOCK_WAITERS,
            });
        }
        let (granted, receiver) = oneshot::channel();
        waiting.push_back(Waiter {
            holder,
            lease,
            granted,
        });
        Ok(receiver)
    }

    /// Gives the lock, which is free, to the longest waiter, and stores that.
    fn give_to_next(&self, record: &mut Record, now: i64) -> Result<()> {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|waiter| !waiter.granted.is_closed());
        let Some(first) = waiting.front() else {
            return self.store(record);
        };
        let expires_at = now.saturating_add(millis(first.lease));
        let lease = record.grant(first.holder.clone(), self.timeline(), now, expires_at);
        self.store(record)?;
        // A holder that has repeated its call gets an answer to each.
        let (given, others): (VecDeque<_>, _) = std::mem::take(&mut *waiting)
            .into_iter()
            .partition(|waiter| waiter.holder == lease.holder);
        *waiting = others;
        for waiter in given {
            // A waiter that gives up now re-reads the lock.
            let _ = waiter.granted.send(lease.clone());
        }
        Ok(())
    }

    /// The alarm's scheduled time; used instead of the clock, which may have been set back.
    fn went_off(&self, scheduled: i64) -> Result<()> {
        let present = now(&self.ctx);
        let due = present.max(scheduled);
        let mut record = self.load(due)?;
        if let Some(lease) = &record.lease {
            return self.alarm.set(Some(lease.expires_at));
        }
        // A forgotten lock starts its tokens at the time, which has to be later than its last token: a clock may have
        // been set back.
        let is_behind = record.number < present;
        if forgotten_at(&record) <= due && self.waiting.borrow().is_empty() {
            return if is_behind {
                self.ctx.storage().delete_all()
            } else {
                self.alarm.set(Some(record.number.saturating_add(1)))
            };
        }
        self.give_to_next(&mut record, present)
    }
}

/// When a lock that is free can be forgotten.
fn forgotten_at(record: &Record) -> i64 {
    let after = millis(limits::FORGET_LOCK_AFTER);
    record.free_since.saturating_add(after)
}

fn held_by(lease: &Lease) -> LockError {
    LockError::Held {
        holder: lease.holder.clone(),
        expires_at: lease.expires_at,
    }
}

fn check_lease(lease: Duration) -> Result<(), LockError> {
    if (limits::MIN_LEASE..=limits::MAX_LEASE).contains(&lease) {
        return Ok(());
    }
    Err(LockError::Invalid(format!(
        "a lease lasts {} ms to {} h, not {lease:?}: renew it for longer",
        limits::MIN_LEASE.as_millis(),
        limits::MAX_LEASE.as_secs() / 3_600
    )))
}
