//! The classes: an instance, and a workflow's directory of its instances.

use std::{borrow::Cow, cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use abide::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Notify;

use abide_component::{WakeUp, worker::Worker};

use super::{
    Failure, Filter, InstanceRecord, Listed, Page, Status, StepKind, StepName, StepRecord,
    WorkflowError, WorkflowOptions, WorkflowRegistry,
    directory::{Directory, ListedVersion},
    failure,
    inner::Inner,
    limits, metrics,
    notice::{self, Parent},
    rows::Rows,
};

/// The parameters of a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The workflow's name.
    pub workflow: String,
    /// The instance's id.
    pub id: String,
    /// Its input, as JSON.
    pub input: String,
    /// Its parent.
    pub parent: Option<Parent>,
}

/// The result of starting an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Started {
    /// Its status.
    pub status: Status,
    /// True if it existed already: nothing was started.
    pub duplicate: bool,
}

/// The result of an instance: its output as JSON, or its failure; `None` if it has not finished.
pub type RawResult = Option<Result<String, Failure>>;

/// An instance of a workflow. Its object is named after the workflow, a slash, and the instance's id.
///
/// Programs use the handle [`Workflows`](super::Workflows).
#[durable_object]
pub struct WorkflowInstance {
    pub(super) inner: Rc<Inner>,
}

impl std::fmt::Debug for WorkflowInstance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkflowInstance")
            .field("ctx", &self.inner.ctx)
            .finish_non_exhaustive()
    }
}

impl DurableObject for WorkflowInstance {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let options = env
            .get::<WorkflowOptions>()
            .map_or_else(WorkflowOptions::default, |options| (*options).clone());
        options.check()?;
        let inner = Rc::new(Inner {
            registry: env.require::<WorkflowRegistry>()?,
            options,
            rows: Rows::new(ctx.storage()),
            worker: Worker::new(&ctx, WakeUp::own(&ctx)),
            ended: Notify::new(),
            cancel: RefCell::default(),
            ctx,
        });
        let told = Rc::clone(&inner);
        inner
            .ctx
            .on_timeline(move |timeline| told.begin_timeline(timeline));
        let copied = Rc::clone(&inner);
        inner.ctx.on_activation(move |how| copied.activated(how));
        let instance = Self { inner };
        #[cfg(feature = "server")]
        instance.serve_operators()?;
        Ok(instance)
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        if self.inner.rows.instance()?.is_some() {
            self.inner.kick()?;
        }
        Ok(())
    }
}

#[rpc]
impl WorkflowInstance {
    /// Starts the instance, once.
    pub async fn start(&self, order: Order) -> Result<Started, WorkflowError> {
        let inner = &self.inner;
        if let Some(instance) = inner.rows.instance()? {
            let known = inner.rows.value("input")?.unwrap_or_default();
            let parent = order.parent.as_ref().map(notice::to_json).transpose()?;
            // An instance that has continued as new now has another input.
            let is_other = instance.run == 1 && !is_same(&known, &order.input);
            if is_other || instance.parent != parent {
                return Err(WorkflowError::IdReused { id: order.id });
            }
            return Ok(Started {
                status: instance.status,
                duplicate: true,
            });
        }
        self.create(order, None).await
    }

    /// Sends an event to the instance, and starts it if it does not exist.
    pub async fn start_with_event(
        &self,
        order: Order,
        name: String,
        payload: String,
    ) -> Result<Started, WorkflowError> {
        if let Some(instance) = self.inner.rows.instance()? {
            self.send_event(name, payload).await?;
            return Ok(Started {
                status: instance.status,
                duplicate: true,
            });
        }
        self.create(order, Some((name, payload))).await
    }

    /// Its state.
    pub async fn record(&self) -> Result<InstanceRecord, WorkflowError> {
        Ok(self.inner.instance()?.record())
    }

    /// Its steps, after one of them; at most [`limits::MAX_PAGE`].
    pub async fn history(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<Vec<StepRecord>, WorkflowError> {
        self.inner.instance()?;
        let limit = limit.clamp(1, limits::MAX_PAGE);
        Ok(self.inner.rows.history(after, limit)?)
    }

    /// The result of a step, as JSON; `None` if it has none.
    pub async fn output(&self, step: StepName) -> Result<Option<String>, WorkflowError> {
        let instance = self.inner.instance()?;
        let Some(found) = self.inner.rows.step(&step)? else {
            return Err(WorkflowError::NoStep {
                id: instance.id,
                step: step.to_string(),
            });
        };
        let (_, output, _) = self.inner.rows.outcome(found.id)?;
        Ok(output)
    }

    /// Its result, when it has finished or this time has passed.
    pub async fn result(&self, patience: Duration) -> Result<RawResult, WorkflowError> {
        let inner = &self.inner;
        let clock = inner.ctx.env().clock();
        let late = clock.sleep_until(clock.now() + patience.min(limits::MAX_PATIENCE));
        let mut late = std::pin::pin!(late);
        loop {
            let ended = inner.ended.notified();
            let instance = inner.instance()?;
            if instance.status.is_end() {
                if let Some(failure) = inner.rows.value("failure")? {
                    return Ok(Some(Err(failure::from_json(&failure))));
                }
                let output = inner.rows.value("output")?;
                return Ok(Some(Ok(output.unwrap_or_else(|| "null".into()))));
            }
            if patience.is_zero() {
                return Ok(None);
            }
            tokio::select! {
                () = ended => {}
                () = &mut late => return Ok(None),
            }
        }
    }

    /// Sends an event; its payload is JSON.
    pub async fn send_event(&self, name: String, payload: String) -> Result<(), WorkflowError> {
        let inner = &self.inner;
        let instance = inner.running()?;
        check_event(&name, &payload)?;
        if inner.rows.count_events()? >= limits::MAX_EVENTS {
            // There may be room next time.
            inner.ctx.forget_call();
            return Err(WorkflowError::TooManyEvents {
                id: instance.id,
                max: limits::MAX_EVENTS,
            });
        }
        inner
            .rows
            .add_event(StepKind::Event, &name, &payload, inner.now())?;
        Ok(inner.kick()?)
    }

    /// Cancels it, at its next request. A stuck one ends at once.
    pub async fn cancel(&self, reason: String) -> Result<(), WorkflowError> {
        let inner = &self.inner;
        let mut instance = inner.running()?;
        if instance.cancel.is_some() && instance.status == Status::Running {
            return Ok(());
        }
        let reason = abide_component::texts::cut(reason, limits::MAX_ERROR_BYTES);
        inner.rows.set_cancel(Some(&reason))?;
        if instance.status == Status::Stuck {
            instance.cancel = Some(reason);
            inner.end(&instance, &Err(failure::canceled()))?;
        } else if instance.status == Status::Paused {
            inner.set_status(&instance, Status::Running, None)?;
        }
        inner.cancel.borrow().set(true);
        Ok(inner.kick()?)
    }

    /// Pauses it. Running attempts finish, and their results are kept.
    pub async fn pause(&self) -> Result<(), WorkflowError> {
        let instance = self.inner.running()?;
        if instance.status != Status::Paused {
            self.inner.set_status(&instance, Status::Paused, None)?;
            self.inner.kick()?;
        }
        Ok(())
    }

    /// Continues after a pause, or after the program was fixed.
    pub async fn resume(&self) -> Result<(), WorkflowError> {
        let instance = self.inner.running()?;
        if instance.status != Status::Running {
            self.inner.set_status(&instance, Status::Running, None)?;
            self.inner.kick()?;
        }
        Ok(())
    }

    /// Repeats a step, and everything that was requested after its result.
    pub async fn restart(&self, step: StepName) -> Result<(), WorkflowError> {
        let instance = self.inner.instance()?;
        let storage = self.inner.ctx.storage();
        storage.transaction(|| self.inner.restart(&instance, &step))?;
        Ok(self.inner.kick()?)
    }

    /// It reports its status to the directory again.
    pub async fn list_again(&self) -> Result<(), WorkflowError> {
        let inner = &self.inner;
        let instance = inner.instance()?;
        inner
            .rows
            .add_notice(notice::LIST, &instance.workflow, "", inner.now())?;
        Ok(inner.kick()?)
    }

    /// A child has finished; its result is JSON.
    pub async fn child_ended(&self, child: String, result: String) -> Result<(), WorkflowError> {
        let inner = &self.inner;
        inner.running()?;
        if inner.rows.awaits_child(&child)? {
            inner
                .rows
                .add_event(StepKind::Child, &child, &result, inner.now())?;
            inner.kick()?;
        }
        Ok(())
    }
}

impl WorkflowInstance {
    /// Creates the instance, optionally with an event that waits for it.
    async fn create(
        &self,
        order: Order,
        event: Option<(String, String)>,
    ) -> Result<Started, WorkflowError> {
        self.check(&order)?;
        if let Some((name, payload)) = &event {
            check_event(name, payload)?;
        }
        let inner = &self.inner;
        let parent = order.parent.as_ref().map(notice::to_json).transpose()?;
        let now = inner.now();
        let instance = inner.ctx.storage().transaction(|| {
            let rows = &inner.rows;
            let named = (order.workflow.as_str(), order.id.as_str());
            rows.start(named, &order.input, parent.as_deref(), now)?;
            if let Some((name, payload)) = event {
                rows.add_event(StepKind::Event, &name, &payload, now)?;
            }
            rows.add_notice(notice::LIST, &order.workflow, "", now)?;
            inner.guard()?;
            inner.instance()
        })?;
        metrics::reached(&order.workflow, Status::Running);
        // It is listed before it begins; if that takes long, the task continues with it.
        for told in inner.tell(&instance, now, 1)? {
            inner.heard(told.await)?;
        }
        inner.kick()?;
        Ok(Started {
            status: Status::Running,
            duplicate: false,
        })
    }

    fn check(&self, order: &Order) -> Result<(), WorkflowError> {
        if !(1..=limits::MAX_ID_BYTES).contains(&order.id.len()) {
            return Err(WorkflowError::Invalid(format!(
                "an instance's id has 1 to {} bytes, not {}",
                limits::MAX_ID_BYTES,
                order.id.len()
            )));
        }
        check_json("the input", &order.input)?;
        let workflow = self.inner.registry.get(&order.workflow)?;
        workflow
            .accept(&order.input)
            .map_err(WorkflowError::Invalid)
    }
}

fn check_event(name: &str, payload: &str) -> Result<(), WorkflowError> {
    if !(1..=limits::MAX_STEP_NAME_BYTES).contains(&name.len()) {
        return Err(WorkflowError::Invalid(format!(
            "an event's name has 1 to {} bytes, not {}",
            limits::MAX_STEP_NAME_BYTES,
            name.len()
        )));
    }
    check_json("the event", payload)
}

fn check_json(what: &str, text: &str) -> Result<(), WorkflowError> {
    if text.len() > limits::MAX_RESULT_BYTES {
        return Err(WorkflowError::Invalid(format!(
            "{what} has {} bytes; at most {} are accepted",
            text.len(),
            limits::MAX_RESULT_BYTES
        )));
    }
    serde_json::from_str::<serde::de::IgnoredAny>(text)
        .map(drop)
        .map_err(|error| WorkflowError::Invalid(format!("{what} is not JSON: {error}")))
}

/// True if two texts are the same JSON.
fn is_same(a: &str, b: &str) -> bool {
    a == b || is_same_value(a.trim(), b.trim(), MAX_DEPTH).unwrap_or(false)
}

/// How deep differently written texts are compared.
const MAX_DEPTH: usize = 128;

/// Level by level: the tree of a text takes a hundred times its length. `Err` if one of them is not JSON. Texts nested
/// deeper than `depth` count as different.
fn is_same_value(a: &str, b: &str, depth: usize) -> serde_json::Result<bool> {
    type Object<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;
    let Some(depth) = depth.checked_sub(1) else {
        return Ok(false);
    };
    match (a.as_bytes().first(), b.as_bytes().first()) {
        (Some(b'{'), Some(b'{')) => {
            let (a, b) = (
                serde_json::from_str::<Object<'_>>(a)?,
                serde_json::from_str::<Object<'_>>(b)?,
            );
            if !a.keys().eq(b.keys()) {
                return Ok(false);
            }
            all_same(a.values().zip(b.values()), depth)
        }
        (Some(b'['), Some(b'[')) => {
            let (a, b) = (
                serde_json::from_str::<Vec<&RawValue>>(a)?,
                serde_json::from_str::<Vec<&RawValue>>(b)?,
            );
            if a.len() != b.len() {
                return Ok(false);
            }
            all_same(a.iter().zip(&b), depth)
        }
        (Some(b'{' | b'['), _) | (_, Some(b'{' | b'[')) => Ok(false),
        // A text, a number, or a word.
        _ => Ok(serde_json::from_str::<serde_json::Value>(a)?
            == serde_json::from_str::<serde_json::Value>(b)?),
    }
}

fn all_same<'a>(
    mut pairs: impl Iterator<Item = (&'a &'a RawValue, &'a &'a RawValue)>,
    depth: usize,
) -> serde_json::Result<bool> {
    pairs.try_fold(true, |same, (a, b)| {
        Ok(same && (a.get() == b.get() || is_same_value(a.get(), b.get(), depth)?))
    })
}

/// The instances of a workflow, as they have reported. Its object is named after the workflow.
#[durable_object]
pub struct WorkflowDirectory {
    pub(super) directory: Rc<Directory>,
}

impl std::fmt::Debug for WorkflowDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkflowDirectory").finish_non_exhaustive()
    }
}

impl DurableObject for WorkflowDirectory {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let directory = Rc::new(Directory::new(&ctx));
        let asking = Rc::clone(&directory);
        ctx.on_timeline(move |timeline| asking.begin_timeline(timeline));
        let directory = Self { directory };
        #[cfg(feature = "server")]
        directory.serve_operators(&ctx)?;
        Ok(directory)
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        self.directory.ask().await
    }
}

#[rpc]
impl WorkflowDirectory {
    /// An instance reports its status; the newest version counts.
    pub async fn list_instance(&self, listed: Listed, version: ListedVersion) -> Result<()> {
        self.directory.list(&listed, &version)
    }

    /// An instance is no longer kept.
    pub async fn forget(&self, id: String, version: ListedVersion) -> Result<()> {
        self.directory.forget(&id, &version)
    }

    /// Instances, newest first.
    pub async fn page(&self, filter: Filter) -> Result<Page> {
        self.directory.page(&filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_same_json_however_they_are_written() {
        for (a, b, expected) in [
            ("1", "1", true),
            ("1.50", "1.5", true),
            ("\"\\u00e9\"", "\"é\"", true),
            (
                " {\"a\": 1, \"b\": [true, null]} ",
                "{\"b\":[true,null],\"a\":1}",
                true,
            ),
            ("{\"a\":{}}", "{\"a\":[]}", false),
            ("{\"a\":1}", "{\"a\":2}", false),
            ("{\"a\":1}", "{\"b\":1}", false),
            ("{\"a\":1}", "{\"a\":1,\"b\":1}", false),
            ("[1,2]", "[2,1]", false),
            ("[1]", "[1,1]", false),
            ("null", "\"null\"", false),
        ] {
            assert_eq!(is_same(a, b), expected, "{a} {b}");
            assert_eq!(is_same(b, a), expected, "{b} {a}");
        }
        // Too deep to compare, and not too deep for the stack.
        let deep = |inner: &str| "[".repeat(500_000) + inner + &"]".repeat(500_000);
        assert!(is_same(&deep("1"), &deep("1")) && !is_same(&deep("1"), &deep(" 1")));
    }
}
