//! Event sourcing: an object whose only table of truth is its chain of outcomes.
//!
//! A state machine is declared as data: states, actions, outcomes, and the transitions that they allow. What happens to the
//! object is an outcome of an action, appended to the table `outcomes`; the live state is what a [`Machine`] makes of the
//! chain. [`transition`](Outcomes::transition) is the only way to write.
//!
//! - A transition is validated, appended, applied and handed to the projection hook, in this order and in one transaction.
//!   Whatever fails, table and memory are as before.
//! - A transition that is refused says what would have been allowed.
//! - Any past state can be shown, and the live state can be checked against a replay of the chain.
//!
//! ```
//! use abide::prelude::*;
//! use abide::outcomes::{Declaration, Entry, Machine, Options, Outcomes, OutcomesError};
//! use serde::{Deserialize, Serialize};
//! use serde_json::json;
//!
//! /// What is known of a parcel.
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
//!         outcomes: &["accepted", "nobody_home", "sent_back"],
//!         transitions: &[
//!             ("on_its_way", "deliver", "accepted", "delivered"),
//!             ("on_its_way", "deliver", "nobody_home", "on_its_way"),
//!             ("on_its_way", "give_up", "sent_back", "returned"),
//!         ],
//!     };
//!
//!     fn apply(&mut self, entry: &Entry) -> Result<()> {
//!         match entry.outcome.as_str() {
//!             "accepted" => self.left_with = entry.data()?,
//!             "nobody_home" => self.attempts += 1,
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
//!     fn new(state: State, _env: Env) -> Result<Self> {
//!         Ok(Self { outcomes: Outcomes::open(&state, Options::default())? })
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
pub mod limits;
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

use abide::{Result, State};
use serde::Serialize;

use chain::Chain;

use crate::broken::{Variant, broken};

pub use check::Checked;
pub use entry::{Entry, replay};
pub use error::{Allowed, OutcomesError};
pub use machine::{Machine, OldOutcome};
pub use options::Options;
pub use reached::Reached;
pub use schema::{Declaration, Schema, SchemaError, Transition};
pub use until::Until;

/// An object's chain of outcomes, and the live state that it leads to. Clones are the same chain. An object has one.
pub struct Outcomes<M>(Rc<Inner<M>>);

/// What is called with each new outcome, in its transaction.
type Hook<M> = Box<dyn Fn(&Entry, &Reached<M>) -> Result<()>>;

struct Inner<M> {
    state: State,
    chain: Chain,
    options: Options,
    hook: Option<Hook<M>>,
    /// What the chain has come to; `None` until it is needed, and whenever memory may differ from the table.
    live: RefCell<Option<Reached<M>>>,
}

/// A transition that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Transitioned {
    /// The outcome's place in the chain.
    pub seq: i64,
    /// When it was written, in milliseconds since 1970.
    pub ts: i64,
    /// The state before.
    pub from: &'static str,
    /// The state after.
    pub to: &'static str,
}

impl<M: Machine> Outcomes<M> {
    /// Opens the chain of an object, in its constructor; makes its tables, whose names begin with `outcomes`, when there are
    /// none. The chain is replayed when the live state is first needed.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](abide::ErrorKind::Input) if the schema or an option makes no sense, or if the object has a chain
    /// of another schema; [`ErrorKind::Damaged`](abide::ErrorKind::Damaged) if the tables are of a version that this program
    /// does not know.
    pub fn open(state: &State, options: Options) -> Result<Self> {
        Self::new(state, options, None)
    }

    /// Like [`open`](Self::open), with a hook that is called with each new outcome and what it led to, in the transaction
    /// that writes it: to feed a read model, enqueue a message, set a timer. If it fails, nothing has changed.
    ///
    /// It is not called in replays. It cannot use the chain, which it is called from.
    pub fn projected(
        state: &State,
        options: Options,
        hook: impl Fn(&Entry, &Reached<M>) -> Result<()> + 'static,
    ) -> Result<Self> {
        Self::new(state, options, Some(Box::new(hook)))
    }

    fn new(state: &State, options: Options, hook: Option<Hook<M>>) -> Result<Self> {
        options.check()?;
        let schema = Schema::of::<M>()?;
        tables::prepare(state.storage(), schema.declaration().name)?;
        Ok(Self(Rc::new(Inner {
            state: state.clone(),
            chain: Chain::new(schema, state.storage()),
            options,
            hook,
            live: RefCell::new(None),
        })))
    }

    /// Writes an outcome of an action, with what is known of it: the only way to change the object.
    ///
    /// It is validated against the schema and by [`Machine::validate`], appended, applied to the live state, and handed to
    /// the hook, in one transaction. If any of it fails, nothing has changed, neither in the table nor in memory.
    pub fn transition<D: Serialize + ?Sized>(
        &self,
        action: &str,
        outcome: &str,
        data: &D,
    ) -> Result<Transitioned, OutcomesError> {
        let inner = &self.0;
        let mut slot = inner.current_mut()?;
        // While the slot is empty, whatever ends this too early leaves a replay of the table to the next who asks.
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
        if broken(Variant::SnapshotAhead) && written.is_err() && live.seq == entry.seq {
            inner.chain.take_snapshot(&live)?;
        }
        written?;
        *slot = Some(live);
        Ok(Transitioned {
            seq: entry.seq,
            ts: entry.ts,
            from,
            to,
        })
    }

    /// Shows the live state to a function.
    pub fn read<R>(&self, look: impl FnOnce(&Reached<M>) -> R) -> Result<R, OutcomesError> {
        Ok(look(&*self.0.current()?))
    }

    /// The state of the schema that the object is in.
    pub fn state(&self) -> Result<&'static str, OutcomesError> {
        self.read(|live| live.state)
    }

    /// The number of outcomes.
    pub fn seq(&self) -> Result<i64> {
        self.0.chain.last()
    }

    /// What is allowed in the present state.
    pub fn allowed(&self) -> Result<Vec<Allowed>, OutcomesError> {
        self.read(|live| self.schema().allowed(live.state))
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.0.chain.schema
    }

    /// Outcomes after one (0 for the beginning), oldest first: at most [`MAX_PAGE`](limits::MAX_PAGE), and fewer if they are
    /// large. There are no more only if there is none.
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

    /// A replay as a text for people: the outcomes up to a place, at most [`MAX_PRINTED`](limits::MAX_PRINTED) of them, with
    /// the state that each led to, and the machine at the end. A damaged chain is shown as far as it is whole.
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

    /// Takes a snapshot now, in place of the one before.
    pub fn take_snapshot(&self) -> Result<(), OutcomesError> {
        let live = self.0.current()?;
        Ok(self.0.chain.take_snapshot(&live)?)
    }

    /// Deletes the snapshot, if there is one. Nothing is lost: the chain is the truth.
    pub fn delete_snapshot(&self) -> Result<()> {
        self.0.chain.delete_snapshot()
    }
}

impl<M: Machine> Inner<M> {
    /// What the chain has come to, as the table has it. Memory may be ahead of it, when a transaction around a transition was
    /// undone.
    fn current_mut(&self) -> Result<RefMut<'_, Option<Reached<M>>>, OutcomesError> {
        let last = self.chain.last()?;
        let mut slot = self.live.try_borrow_mut().map_err(|_| in_use())?;
        let differs = |live: &Reached<M>| live.seq != last && !broken(Variant::MemoryTrusted);
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
        let mut write = || self.append(live, entry, to);
        if broken(Variant::WrittenInParts) {
            return write();
        }
        self.chain.storage.transaction_sync(write)
    }

    /// Appends an outcome, applies it to the live state, and hands it to the hook.
    fn append(
        &self,
        live: &mut Reached<M>,
        entry: &Entry,
        to: &'static str,
    ) -> Result<(), OutcomesError> {
        let hook_first = broken(Variant::HookFirst);
        self.chain.append(entry)?;
        if hook_first {
            self.hand_over(entry, live)?;
        }
        live.apply(entry, to)
            .map_err(|error| rejected(entry, &error))?;
        if !hook_first {
            self.hand_over(entry, live)?;
        }
        if self.options.takes_snapshot_at(live.seq) {
            self.chain.take_snapshot(live)?;
        }
        Ok(())
    }

    /// Calls the hook, if there is one.
    fn hand_over(&self, entry: &Entry, live: &Reached<M>) -> Result<()> {
        match &self.hook {
            Some(hook) if !broken(Variant::HookForgotten) => hook(entry, live),
            _ => Ok(()),
        }
    }

    /// The outcome that is to be written, and the state that it leads to.
    fn validate<D: Serialize + ?Sized>(
        &self,
        live: &Reached<M>,
        action: &str,
        outcome: &str,
        data: &D,
    ) -> Result<(Entry, &'static str), OutcomesError> {
        let to = self.next_state(live.state, action, outcome)?;
        let data = serde_json::to_string(data).map_err(|error| {
            OutcomesError::Invalid(format!("the data of `{outcome}` is no JSON: {error}"))
        })?;
        if data.len() > limits::MAX_DATA_BYTES {
            return Err(OutcomesError::Invalid(format!(
                "the data of `{outcome}` has {} bytes and at most {} are taken: keep what is large in a table of its own, and its \
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
        if !broken(Variant::RuleIgnored) {
            valid.map_err(|error| rejected(&entry, &error))?;
        }
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
        let next = next.or(broken(Variant::SchemaIgnored).then_some(state));
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
        let now = i64::try_from(self.state.env().clock().unix_millis()).unwrap_or(i64::MAX);
        if broken(Variant::ClockTrusted) {
            return now;
        }
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

/// The chain is asked by what it calls itself.
fn in_use() -> OutcomesError {
    OutcomesError::Invalid(
        "the chain is in use: the hook, or a function that reads the live state, cannot use it as well; it is given what it needs"
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
