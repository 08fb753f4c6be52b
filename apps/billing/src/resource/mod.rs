//! The common part of all resources: a chain of outcomes, its view, its history, its row in the read model, its
//! webhooks.
//!
//! Contract: a resource is an object whose name is the resource's id and whose only truth is its chain. Everything
//! shown of it comes from the chain, and every change is a transition of its machine.

mod live;
mod row;

use abide::{Ctx, Env, Error, ErrorKind, Result, Timeline, TimelineCause};
use abide::{
    outcomes::{
        Checked, Entry, Outcomes, OutcomesError, OutcomesOptions, Reached, Transitioned, Until,
    },
    projection::{Feed, Projection},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    BillingError, Time,
    hooks::{self, Webhooks},
    machines::ABSENT,
    states::{Annotation, Copied, Restored},
};

pub use live::Live;
pub use row::Row;
pub(crate) use row::TABLE;

/// Outcomes read at a time: more than most resources have.
const PAGE: usize = 100;

/// The public view of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Its kind: the name of its machine.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: String,
    /// The number of its outcomes. It grows with each change.
    pub seq: i64,
    /// When it was last changed.
    pub at: Time,
    /// Its data.
    pub data: Value,
}

impl View {
    fn new<M: Live>(id: &str, reached: &Reached<M>) -> Result<Self> {
        Ok(Self {
            kind: M::SCHEMA.name.to_owned(),
            id: id.to_owned(),
            state: reached.state.to_owned(),
            seq: reached.seq,
            at: Time(reached.ts),
            data: serde_json::to_value(&reached.machine).map_err(Error::from_std)?,
        })
    }

    /// Its data, in the given type.
    pub(crate) fn live<M: Live>(&self) -> Result<M, BillingError> {
        let live = M::deserialize(&self.data);
        Ok(live.map_err(|error| Error::with_kind(ErrorKind::Decode, error.to_string()))?)
    }
}

/// An outcome of a resource's chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The outcome, with its place in the chain.
    #[serde(flatten)]
    pub entry: Entry,
    /// The state that it led to.
    pub state: String,
}

/// The resource of an object. Clones share the same resource.
#[derive(Clone, Debug)]
pub(crate) struct Resource<M> {
    ctx: Ctx,
    id: String,
    outcomes: Outcomes<M>,
    /// None on a node without a read model.
    feed: Option<Feed>,
}

impl<M: Live> Resource<M> {
    /// Opens the resource of an object, in its constructor. The hook is called with each outcome, in its transaction;
    /// so are the feeds of the read model and of webhooks, if the node has them.
    pub(crate) fn open(
        ctx: &Ctx,
        hook: impl Fn(&Entry, &Reached<M>) -> Result<()> + 'static,
    ) -> Result<Self> {
        let kind = M::SCHEMA.name;
        let id = ctx.name().ok_or_else(|| {
            let text = format!("a {kind} must be addressed by its name, which is its id");
            Error::with_kind(ErrorKind::Input, text)
        })?;
        let env = ctx.env();
        let feed = env
            .get::<Projection>()
            .map(|_| Feed::open(ctx))
            .transpose()?;
        let hooks = env
            .get::<Webhooks>()
            .map(|_| hooks::Feed::open(ctx))
            .transpose()?;
        let (rows, source, name) = (feed.clone(), ctx.clone(), id.clone());
        let hook = move |entry: &Entry, reached: &Reached<M>| {
            hook(entry, reached)?;
            if let Some(rows) = &rows {
                Row::new(&source, &name, reached)?.put(rows)?;
            }
            if let Some(hooks) = &hooks {
                hooks.put(entry, &View::new(&name, reached)?)?;
            }
            Ok(())
        };
        let resource = Self {
            ctx: ctx.clone(),
            id,
            outcomes: Outcomes::projected(ctx, OutcomesOptions::default(), hook)?,
            feed,
        };
        let told = resource.clone();
        ctx.on_timeline(move |timeline| Ok(told.begin(timeline)?));
        Ok(resource)
    }

    /// Writes into the chain that the object was restored or copied.
    fn begin(&self, timeline: &Timeline) -> Result<(), BillingError> {
        let (state, to_at) = self.read(|live| (live.state, Time(live.ts)))?;
        if state == ABSENT {
            return Ok(());
        }
        match timeline.cause() {
            TimelineCause::Restored { to, .. } => {
                let restored = Restored {
                    at: timeline
                        .since()
                        .map_or(to_at, |since| Time(since.unix_millis())),
                    to_at,
                    to: to.to_string(),
                    timeline: timeline.id().to_string(),
                };
                self.write("restore", "restored", &restored)?;
            }
            TimelineCause::Forked { origin, bookmark } => {
                let copied = Copied {
                    origin: origin.to_string(),
                    bookmark: bookmark.to_string(),
                };
                self.write("copy", "copied", &copied)?;
            }
            TimelineCause::Imported {
                replaces: false, ..
            } => {
                let copied = Copied {
                    origin: "an export".to_owned(),
                    bookmark: timeline.id().to_string(),
                };
                self.write("copy", "copied", &copied)?;
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn env(&self) -> &Env {
        self.ctx.env()
    }

    pub(crate) fn now(&self) -> Time {
        Time::now(&**self.env().clock())
    }

    /// Writes an outcome, and returns the resulting view.
    pub(crate) fn transition(
        &self,
        action: &str,
        outcome: &str,
        data: &impl Serialize,
    ) -> Result<View, BillingError> {
        self.write(action, outcome, data)?;
        self.view()
    }

    /// Writes an outcome.
    pub(crate) fn write(
        &self,
        action: &str,
        outcome: &str,
        data: &impl Serialize,
    ) -> Result<Transitioned, BillingError> {
        Ok(self.outcomes.transition(action, outcome, data)?)
    }

    /// Writes an outcome, unless the chain has one of this action already: a repeated request changes nothing.
    pub(crate) fn write_once(
        &self,
        action: &str,
        outcome: &str,
        data: &impl Serialize,
    ) -> Result<View, BillingError> {
        if self.has(action, outcome)? {
            return self.view();
        }
        self.transition(action, outcome, data)
    }

    /// Returns whether the chain has an outcome of an action.
    fn has(&self, action: &str, outcome: &str) -> Result<bool, BillingError> {
        let mut after = 0;
        loop {
            let page = self.outcomes.history(after, PAGE)?;
            let is_it = |entry: &Entry| entry.action == action && entry.outcome == outcome;
            if page.iter().any(is_it) {
                return Ok(true);
            }
            match page.last() {
                Some(last) => after = last.seq,
                None => return Ok(false),
            }
        }
    }

    /// Writes all that a function writes, or nothing if it fails.
    pub(crate) fn atomically<R>(
        &self,
        change: impl FnOnce() -> Result<R, BillingError>,
    ) -> Result<R, BillingError> {
        self.ctx.storage().transaction(change)
    }

    /// Changes metadata; an empty change is ignored.
    pub(crate) fn annotate(&self, annotation: &Annotation) -> Result<View, BillingError> {
        annotation.check()?;
        if annotation.0.is_empty() {
            return self.view();
        }
        self.transition("annotate", "annotated", annotation)
    }

    /// Rejects what the present state does not allow, as a transition would.
    pub(crate) fn must_take(&self, action: &str, outcome: &str) -> Result<(), BillingError> {
        let view = self.view()?;
        let schema = self.outcomes.schema();
        if schema.next(&view.state, action, outcome).is_some() {
            return Ok(());
        }
        Err(BillingError::Outcome(OutcomesError::Refused {
            schema: view.kind,
            allowed: schema.allowed(&view.state),
            state: view.state,
            action: action.to_owned(),
            outcome: outcome.to_owned(),
        }))
    }

    /// Rejects a second creation, before other objects are notified.
    pub(crate) fn must_be_new(&self) -> Result<(), BillingError> {
        if self.read(|live| live.state == ABSENT)? {
            return Ok(());
        }
        Err(BillingError::invalid(format!(
            "{} has been created.",
            self.id
        )))
    }

    /// Passes the live state to a function.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Reached<M>) -> R) -> Result<R, BillingError> {
        Ok(self.outcomes.read(look)?)
    }

    /// The public view. A resource that was never created does not exist.
    pub(crate) fn view(&self) -> Result<View, BillingError> {
        let view = self.read(|live| View::new(&self.id, live))??;
        if view.state == ABSENT {
            return Err(BillingError::not_found(&view.kind, &view.id));
        }
        Ok(view)
    }

    /// The view at an earlier point, including before its creation.
    pub(crate) fn view_at(&self, until: Until) -> Result<View, BillingError> {
        Ok(View::new(&self.id, &self.outcomes.state_at(until)?)?)
    }

    /// Outcomes after one, oldest first, with the states that they led to; none after the end of the chain.
    pub(crate) fn history(&self, after: i64, limit: usize) -> Result<Vec<Event>, BillingError> {
        let after = after.min(self.view()?.seq);
        let mut state = self.outcomes.state_at(Until::Seq(after))?.state;
        let entries = self.outcomes.history(after, limit)?;
        let schema = self.outcomes.schema();
        let events = entries.into_iter().map(|entry| {
            let next = schema.next(state, &entry.action, &entry.outcome);
            state = next.unwrap_or(state);
            Event {
                entry,
                state: state.to_owned(),
            }
        });
        Ok(events.collect())
    }

    /// A replay as text for people.
    pub(crate) fn print(&self, until: Until) -> Result<String, BillingError> {
        Ok(self.outcomes.print(until)?)
    }

    /// Compares a replay of the chain with the live state. Returns the number of outcomes.
    pub(crate) fn check(&self) -> Result<i64, BillingError> {
        let Checked { outcomes, .. } = self.outcomes.check()?;
        Ok(outcomes)
    }

    /// The resource's row in the read model.
    pub(crate) fn row(&self) -> Result<Row, BillingError> {
        Ok(self.read(|live| Row::new(&self.ctx, &self.id, live))??)
    }

    /// Puts the row into the feed of the read model once more, for one that is made anew.
    pub(crate) fn feed_again(&self) -> Result<(), BillingError> {
        if let Some(feed) = &self.feed {
            let row = self.row()?;
            if row.state != ABSENT {
                row.put(feed)?;
            }
        }
        Ok(())
    }
}
