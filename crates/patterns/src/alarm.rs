//! An object's own alarm, shared by several components.
//!
//! An object may hold several components that want to be woken: a schedule, a feed. Each keeps its time in a slot of a
//! [`SharedAlarm`], and the object's own alarm is set to the first of them.
//!
//! ```
//! use abide::prelude::*;
//! use abide_patterns::alarm::SharedAlarm;
//!
//! #[durable_object]
//! struct Kitchen {
//!     alarm: SharedAlarm,
//! }
//!
//! impl DurableObject for Kitchen {
//!     fn new(state: State, _env: Env) -> Result<Self> {
//!         Ok(Self { alarm: SharedAlarm::open(&state)? })
//!     }
//!
//!     async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
//!         self.alarm.woken()?;
//!         for slot in ["eggs", "tea"] {
//!             if self.alarm.is_due(slot)? {
//!                 println!("{slot} are ready");
//!                 self.alarm.set(slot, None)?;
//!             }
//!         }
//!         Ok(())
//!     }
//! }
//! # fn main() {}
//! ```

use std::{cell::RefCell, collections::BTreeSet, rc::Rc, time::Duration};

use abide::{AlarmRetry, ClassOptions, Result, ScheduledTime, Sql, State};

use crate::numbers::millis;
use crate::seen::scheduled;

/// How soon the object is woken again if what was due has not been seen to.
pub const AGAIN: Duration = Duration::from_secs(30);

/// The last millisecond of the year 9999. An alarm that is set later is kept as this.
const MAX_TIME: i64 = crate::outbox::limits::MAX_TIME;

/// How to run a class whose alarm is shared: it is tried until it succeeds, at most a minute apart.
pub fn class_options() -> ClassOptions {
    ClassOptions {
        alarm_retry: AlarmRetry::for_ever(Duration::from_mins(1)),
        ..ClassOptions::default()
    }
}

/// The slots of an object's alarm. Clones are the same alarm. Its table is `shared_alarm`.
///
/// An object that holds one never sets its alarm in its storage.
#[derive(Clone, Debug)]
pub struct SharedAlarm(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    state: State,
    /// What the object was last woken for, and nobody has seen to.
    due: RefCell<BTreeSet<String>>,
}

impl SharedAlarm {
    /// Opens the slots of an object, in its constructor.
    pub fn open(state: &State) -> Result<Self> {
        state.storage().sql().exec(
            "CREATE TABLE IF NOT EXISTS shared_alarm (slot TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID",
            (),
        )?;
        Ok(Self(Rc::new(Inner {
            state: state.clone(),
            due: RefCell::default(),
        })))
    }

    /// To be called first in the object's [`alarm`](abide::DurableObject::alarm), before anything looks at its slot. What
    /// is due, and is not seen to by setting or emptying its slot, is due again after [`AGAIN`].
    pub fn woken(&self) -> Result<()> {
        let now = self.now();
        // A clock that was set back does not delay what waits; what waits for a time of the clock finds that it is early.
        let shown = now.max(scheduled(&self.0.state));
        let due = self.sql().exec(
            "UPDATE shared_alarm SET at = ?1 WHERE at <= ?2 RETURNING slot",
            (now.saturating_add(millis(AGAIN)), shown),
        )?;
        *self.0.due.borrow_mut() = due.to_array::<String>()?.into_iter().collect();
        self.arm()
    }

    /// Sets the time of a slot, in milliseconds since 1970, or empties it. A time that has passed is due at once.
    pub fn set(&self, slot: &str, at: Option<i64>) -> Result<()> {
        self.0.due.borrow_mut().remove(slot);
        let sql = self.sql();
        match at {
            Some(at) => sql.exec(
                "INSERT INTO shared_alarm VALUES (?1, ?2) ON CONFLICT DO UPDATE SET at = excluded.at",
                // No alarm is set for 1970 itself.
                (slot, at.clamp(1, MAX_TIME)),
            )?,
            None => sql.exec("DELETE FROM shared_alarm WHERE slot = ?1", (slot,))?,
        };
        self.arm()
    }

    /// The time of a slot, if it has one: of the next wake-up for it.
    pub fn get(&self, slot: &str) -> Result<Option<i64>> {
        self.sql()
            .exec("SELECT at FROM shared_alarm WHERE slot = ?1", (slot,))?
            .optional()
    }

    /// True if the time of a slot has come. It stays so until the slot is set anew or emptied.
    pub fn is_due(&self, slot: &str) -> Result<bool> {
        Ok(
            self.0.due.borrow().contains(slot)
                || self.get(slot)?.is_some_and(|at| at <= self.now()),
        )
    }

    fn arm(&self) -> Result<()> {
        let first: Option<i64> = self
            .sql()
            .exec("SELECT min(at) FROM shared_alarm", ())?
            .one()?;
        let storage = self.0.state.storage();
        match first {
            Some(at) => storage.set_alarm(ScheduledTime::wait_until(at)),
            None => storage.delete_alarm(),
        }
    }

    fn sql(&self) -> Sql {
        self.0.state.storage().sql()
    }

    fn now(&self) -> i64 {
        i64::try_from(self.0.state.env().clock().unix_millis()).unwrap_or(i64::MAX)
    }
}
