//! Event sourcing: an object whose only authoritative table is its chain of outcomes.
//!
//! A state machine is declared as data: states, actions, outcomes, and the allowed transitions. Each event of the
//! object is an outcome of an action, appended to the table `outcomes`; a [`Machine`] computes the live state from the
//! chain. [`transition`](Outcomes::transition) is the only way to write.
//!
//! - A transition is validated, appended, applied and passed to the projection hook, in this order and in one
//!   transaction. If any of these fails, table and memory are unchanged.
//! - A refused transition reports the allowed ones.
//! - Any past state can be shown, and the live state can be checked against a replay of the chain.
//!
//! ```
//! use abide::prelude::*;
//! use abide::outcomes::{Declaration, Entry, Machine, OutcomesOptions, Outcomes, OutcomesError};
//! use serde::{Deserialize, Serialize};
//! use serde_json::json;
//!
//! /// The state of a parcel.
//! #[derive(Default, Serialize, Deserialize)]
//! struct Parcel {
//!     attempts: u32,
//!     left_with: Option<String>,
//! }
//!
//! impl Machine for Parcel {
//!     const SCHEMA: Declaration = Declaration {
//!         name: "parcel",
//!         initial: "on_its_way",
//!         states: &["on_its_way", "delivered", "returned"],
//!         terminal: &["delivered", "returned"],
//!         actions: &["deliver", "give_up"],
//!         outcomes: &["accepted", "not_home", "sent_back"],
//!         transitions: &[
//!             ("on_its_way", "deliver", "accepted", "delivered"),
//!             ("on_its_way", "deliver", "not_home", "on_its_way"),
//!             ("on_its_way", "give_up", "sent_back", "returned"),
//!         ],
//!     };
//!
//!     fn apply(&mut self, entry: &Entry) -> Result<()> {
//!         match entry.outcome.as_str() {
//!             "accepted" => self.left_with = entry.data()?,
//!             "not_home" => self.attempts += 1,
//!             _ => {}
//!         }
//!         Ok(())
//!     }
//! }
//!
//! #[durable_object]
//! struct Parcels {
//!     outcomes: Outcomes<Parcel>,
//! }
//!
//! impl DurableObject for Parcels {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         Ok(Self { outcomes: Outcomes::open(&ctx, OutcomesOptions::default())? })
//!     }
//! }
//!
//! #[rpc]
//! impl Parcels {
//!     pub async fn delivered(&self, to: String) -> Result<i64, OutcomesError> {
//!         Ok(self.outcomes.transition("deliver", "accepted", &json!(to))?.seq)
//!     }
//!
//!     pub async fn attempts(&self) -> Result<u32, OutcomesError> {
//!         self.outcomes.read(|parcel| parcel.machine.attempts)
//!     }
//! }
//! # fn main() {}
//! ```

mod chain;
mod check;
mod diagram;
mod entry;
mod error;
pub(crate) mod limits;
mod machine;
mod options;
mod print;
mod reached;
mod schema;
mod snapshot;
mod tables;
mod until;

use std::{
    cell::{Ref, RefCell, RefMut},
    fmt,
    rc::Rc,
};

use abide::{Ctx, Result};
use serde::Serialize;

use chain::Chain;

pub use check::Checked;
pub use entry::{Entry, replay};
pub use error::{Allowed, OutcomesError};
pub use machine::{Machine, OldOutcome};
pub use options::OutcomesOptions;
pub use reached::Reached;
pub use schema::{Declaration, Schema, SchemaError, Transition};
pub use until::Until;

/// An object's chain of outcomes, and the live state computed from it. Clones refer to the same chain. An object has
/// only one.
pub struct Outcomes<M>(Rc<Inner<M>>);

/// The hook that is called with each new outcome, in its transaction.
type Hook<M> = Box<dyn Fn(&Entry, &Reached<M>) -> Result<()>>;

struct Inner<M> {
    ctx: Ctx,
    chain: Chain,
    options: OutcomesOptions,
    hook: Option<Hook<M>>,
    /// The live state; `None` until it is needed, and whenever memory may differ from the table.
    live: RefCell<Option<Reached<M>>>,
}

/// A completed transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Transitioned {
    /// The outcome's number in the chain.
    pub seq: i64,
    /// When it was written, in milliseconds since 1970.
    pub ts: i64,
    /// The state before.
    pub from: &'static str,
    /// The state after.
    pub to: &'static str,
}

impl<M: Machine> Outcomes<M> {
    /// Opens the chain of an object, in its constructor; creates its tables, whose names begin with `outcomes`, if they
    /// do not exist. The chain is replayed when the live state is first needed.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](abide::ErrorKind::Input) if the schema or an option is invalid, or if the object has a
    /// chain of another schema; [`ErrorKind::Damaged`](abide::ErrorKind::Damaged) if this program does not know the
    /// version of the tables.
    pub fn open(ctx: &Ctx, options: OutcomesOptions) -> Result<Self> {
        Self::new(ctx, options, None)
    }

    /// Like [`open`](Self::open), with a hook that is called with each new outcome and the resulting state, in the
    /// transaction that writes it: to feed a read model, enqueue a message, or set a timer. If it fails, nothing has
    /// changed.
    ///
    /// It is not called in replays. It cannot use the chain that calls it.
    pub fn projected(
        ctx: &Ctx,
        options: OutcomesOptions,
        hook: impl Fn(&Entry, &Reached<M>) -> Result<()> + 'static,
    ) -> Result<Self> {
        Self::new(ctx, options, Some(Box::new(hook)))
    }

    fn new(ctx: &Ctx, options: OutcomesOptions, hook: Option<Hook<M>>) -> Result<Self> {
        options.check()?;
        let schema = Schema::of::<M>()?;
        let sql = tables::open(ctx, schema.declaration().name)?;
        Ok(Self(Rc::new(Inner {
            ctx: ctx.clone(),
            chain: Chain::new(schema, ctx.storage(), sql),
            options,
            hook,
            live: RefCell::new(None),
        })))
    }

    /// Writes an outcome of an action, with its data: the only way to change the object.
    ///
    /// It is validated against the schema and by [`Machine::validate`], appended, applied to the live state, and passed
    /// to the hook, in one transaction. If any of these fails, nothing has changed, neither in the table nor in memory.
    pub fn transition<D: Serialize + ?Sized>(
        &self,
        action: &str,
        outcome: &str,
        data: &D,
    ) -> Result<Transitioned, OutcomesError> {
        let inner = &self.0;
        let mut slot = inner.current_mut()?;
        // While the slot is empty, an early exit leaves a replay of the table to the next caller.
        let Some(mut live) = slot.take() else {
            return Err(in_use());
        };
        let from = live.state;
        let (entry, to) = match inner.validate(&live, action, outcome, data) {
            Ok(valid) => valid,
            Err(refused) => {
                *slot = Some(live);
                return Err(refused);
            }
        };
        let written = inner.write(&mut live, &entry, to);
        written?;
        *slot = Some(live);
        Ok(Transitioned {
            seq: entry.seq,
            ts: entry.ts,
            from,
            to,
        })
    }

    /// Calls a function with the live state.
    pub fn read<R>(&self, look: impl FnOnce(&Reached<M>) -> R) -> Result<R, OutcomesError> {
        Ok(look(&*self.0.current()?))
    }

    /// The object's current state in the schema.
    pub fn state(&self) -> Result<&'static str, OutcomesError> {
        self.read(|live| live.state)
    }

    /// The number of outcomes.
    pub fn seq(&self) -> Result<i64> {
        self.0.chain.last()
    }

    /// The transitions that are allowed in the current state.
    pub fn allowed(&self) -> Result<Vec<Allowed>, OutcomesError> {
        self.read(|live| self.schema().allowed(live.state))
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.0.chain.schema
    }

    /// Outcomes after one (0 for the beginning), oldest first: at most [`MAX_PAGE`](limits::MAX_PAGE), and fewer if
    /// they are large. Only an empty page is the last.
    pub fn history(&self, after: i64, limit: usize) -> Result<Vec<Entry>> {
        self.0.chain.history::<M>(after, limit)
    }

    /// A past state.
    pub fn state_at(&self, until: Until) -> Result<Reached<M>, OutcomesError> {
        let chain = &self.0.chain;
        if let Until::Seq(seq) = until {
            let last = chain.last()?;
            if !(0..=last).contains(&seq) {
                return Err(OutcomesError::NotFound { seq, last });
            }
        }
        let mut reached = chain.begin(until)?;
        chain.replay(&mut reached, until, |_, _| Ok(()))?;
        Ok(reached)
    }

    /// A replay as a text for people: the outcomes up to a position, at most [`MAX_PRINTED`](limits::MAX_PRINTED) of
    /// them, with the state that each led to, and the machine at the end. Of a damaged chain, the intact part is shown.
    pub fn print(&self, until: Until) -> Result<String> {
        self.0.chain.print::<M>(until)
    }

    /// Replays the chain from its beginning and compares it with the live state, and with the snapshot if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](abide::ErrorKind::Damaged) with the first difference, or with the outcome at which the chain
    /// is damaged.
    pub fn check(&self) -> Result<Checked, OutcomesError> {
        let live = self.0.current()?;
        Ok(self.0.chain.check(&live)?)
    }

    /// Takes a snapshot now, replacing the previous one.
    pub fn take_snapshot(&self) -> Result<(), OutcomesError> {
        let live = self.0.current()?;
        Ok(self.0.chain.take_snapshot(&live)?)
    }

    /// Deletes the snapshot, if there is one. Nothing is lost: the chain is authoritative.
    pub fn delete_snapshot(&self) -> Result<()> {
        self.0.chain.delete_snapshot()
    }
}

impl<M: Machine> Inner<M> {
    /// The live state as of the table. Memory may be ahead of it, after a rollback of a transaction around a
    /// transition.
    fn current_mut(&self) -> Result<RefMut<'_, Option<Reached<M>>>, OutcomesError> {
        let last = self.chain.last()?;
        let mut slot = self.live.try_borrow_mut().map_err(|_| in_use())?;
        let differs = |live: &Reached<M>| live.seq != last;
        if slot.as_ref().is_none_or(differs) {
            *slot = None;
            let mut live = self.chain.begin(Until::End)?;
            self.chain.replay(&mut live, Until::End, |_, _| Ok(()))?;
            *slot = Some(live);
        }
        Ok(slot)
    }

    fn current(&self) -> Result<Ref<'_, Reached<M>>, OutcomesError> {
        drop(self.current_mut()?);
        let slot = self.live.try_borrow().map_err(|_| in_use())?;
        Ref::filter_map(slot, Option::as_ref).map_err(|_| in_use())
    }

    /// Writes an outcome and all that comes with it, in one transaction.
    fn write(
        &self,
        live: &mut Reached<M>,
        entry: &Entry,
        to: &'static str,
    ) -> Result<(), OutcomesError> {
        let storage = &self.chain.storage;
        storage.transaction(|| self.append(live, entry, to))
    }

    /// Appends an outcome, applies it to the live state, and hands it to the hook.
    fn append(
        &self,
        live: &mut Reached<M>,
        entry: &Entry,
        to: &'static str,
    ) -> Result<(), OutcomesError> {
        self.chain.append(entry)?;
        live.apply(entry, to)
            .map_err(|error| rejected(entry, &error))?;
        self.hand_over(entry, live)?;
        if self.options.takes_snapshot_at(live.seq) {
            self.chain.take_snapshot(live)?;
        }
        Ok(())
    }

    /// Calls the hook, if there is one.
    fn hand_over(&self, entry: &Entry, live: &Reached<M>) -> Result<()> {
        match &self.hook {
            Some(hook) => hook(entry, live),
            None => Ok(()),
        }
    }

    /// The outcome to write, and the state that it leads to.
    fn validate<D: Serialize + ?Sized>(
        &self,
        live: &Reached<M>,
        action: &str,
        outcome: &str,
        data: &D,
    ) -> Result<(Entry, &'static str), OutcomesError> {
        let to = self.next_state(live.state, action, outcome)?;
        let data = serde_json::to_string(data).map_err(|error| {
            OutcomesError::Invalid(format!("the data of `{outcome}` is not JSON: {error}"))
        })?;
        if data.len() > limits::MAX_DATA_BYTES {
            return Err(OutcomesError::Invalid(format!(
                "the data of `{outcome}` has {} bytes; at most {} are accepted: store large data in its own table, and its \
                 key in the data",
                data.len(),
                limits::MAX_DATA_BYTES
            )));
        }
        let entry = Entry::new((
            live.seq + 1,
            action.to_owned(),
            outcome.to_owned(),
            M::VERSION,
            data,
            self.time_after(live),
        ));
        let valid = live.machine.validate(&entry);
        valid.map_err(|error| rejected(&entry, &error))?;
        Ok((entry, to))
    }

    /// The state that an outcome leads to, if the schema allows it.
    fn next_state(
        &self,
        state: &'static str,
        action: &str,
        outcome: &str,
    ) -> Result<&'static str, OutcomesError> {
        let schema = &self.chain.schema;
        let next = schema.next(state, action, outcome);
        next.ok_or_else(|| OutcomesError::Refused {
            schema: schema.declaration().name.to_owned(),
            state: state.to_owned(),
            action: action.to_owned(),
            outcome: outcome.to_owned(),
            allowed: schema.allowed(state),
        })
    }

    /// The time of the next outcome: that of the clock, and never before the last.
    fn time_after(&self, live: &Reached<M>) -> i64 {
        let now = self.ctx.now().unix_millis();
        now.max(live.ts)
    }
}

fn rejected(entry: &Entry, error: &abide::Error) -> OutcomesError {
    OutcomesError::Rejected {
        action: entry.action.clone(),
        outcome: entry.outcome.clone(),
        reason: error.message().to_owned(),
    }
}

/// The chain is being used by a function that it calls.
fn in_use() -> OutcomesError {
    OutcomesError::Invalid(
        "the chain is in use: the hook, or a function that reads the live state, cannot use it; use the arguments instead"
            .to_owned(),
    )
}

impl<M> Clone for Outcomes<M> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<M> fmt::Debug for Outcomes<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcomes")
            .field("chain", &self.0.chain)
            .finish_non_exhaustive()
    }
}
