//! The background task that drives an instance.
//!
//! Contract: at most one such task of an instance runs. It runs while an attempt or a notice is in flight or something
//! is due within a moment; later work is left to the object's alarm, so the object may leave memory, and the run with
//! it. Whoever starts the task sets the alarm, a few seconds ahead, and the alarm sets itself again while the task
//! runs: if the object or the process stops, the alarm continues the work.
//!
//! A step's function is called when its attempt is on disk.

use std::{rc::Rc, sync::Arc};

use abide::{Error, ErrorKind, Result};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};

use super::{
    Context, Status,
    attempt::Cancel,
    inner::Inner,
    limits,
    notices::{self, Telling},
    replay::{Mode, Replay},
    rows::Instance,
    run::{Rehearsals, Run, Turn, is_paused},
};
use crate::broken::{Variant, broken};
use abide_component::numbers::millis;
use abide_component::waits;

impl Inner {
    /// Wakes the task; starts it if none runs.
    pub(super) fn kick(self: &Rc<Self>) -> Result<()> {
        self.guard()?;
        // It starts anew when it is activated.
        if self.state.is_dormant() {
            return Ok(());
        }
        if self.running.replace(true) {
            self.news.notify_one();
            return Ok(());
        }
        if let Err(error) = self.spawn(None, FuturesUnordered::new()) {
            self.running.set(false);
            tracing::warn!(%error, "a workflow cannot start its task and waits for its alarm");
        }
        Ok(())
    }

    fn spawn(self: &Rc<Self>, run: Option<Run>, telling: FuturesUnordered<Telling>) -> Result<()> {
        let task = Task {
            inner: Rc::clone(self),
            run,
            telling,
            guard: Guard {
                inner: Rc::clone(self),
                cut_off: true,
            },
        };
        self.state.wait_until(task.drive())
    }
}

/// Why a task ends.
enum TaskEnd {
    /// Nothing is in flight or due.
    Rest,
    /// Something is, and another task continues with it.
    HandOver,
}

struct Task {
    inner: Rc<Inner>,
    run: Option<Run>,
    telling: FuturesUnordered<Telling>,
    guard: Guard,
}

impl Task {
    async fn drive(mut self) {
        match self.work().await {
            Ok(TaskEnd::Rest) => {
                self.guard.cut_off = false;
                self.inner.running.set(false);
            }
            Ok(TaskEnd::HandOver) => {
                let telling = std::mem::take(&mut self.telling);
                self.guard.cut_off = self.inner.spawn(self.run.take(), telling).is_err();
            }
            Err(error) => {
                tracing::error!(%error, "a workflow pauses until its alarm");
            }
        }
    }

    async fn work(&mut self) -> Result<TaskEnd> {
        let inner = Rc::clone(&self.inner);
        let env = inner.state.env();
        let clock = Arc::clone(env.clock());
        let end = clock.now() + limits::TASK_LIFE;
        loop {
            while let Some(Some(heard)) = self.telling.next().now_or_never() {
                inner.heard(heard)?;
            }
            let now = inner.now();
            let Some(instance) = inner.rows.instance()? else {
                inner.arm(None)?;
                return Ok(TaskEnd::Rest);
            };
            if let Some(by) = inner.mind_clock(&instance, now)?
                && let Some(run) = &self.run
            {
                run.bring_nearer(by);
            }
            let stopping = env.is_stopping();
            if !stopping && clock.now() >= end {
                return Ok(TaskEnd::HandOver);
            }
            let mut due = match self.turn(&instance, now, stopping)? {
                Turn::Ended(result) => {
                    inner.end(&instance, &result)?;
                    continue;
                }
                Turn::Stuck(text) => {
                    tracing::error!(workflow = instance.workflow, instance = instance.id, %text, "a workflow is stuck");
                    self.run = None;
                    inner.set_status(&instance, Status::Stuck, Some(&text))?;
                    continue;
                }
                Turn::Anew(input) => {
                    self.run = None;
                    inner.begin_anew(&input)?;
                    continue;
                }
                Turn::More => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Turn::Rest(due) => due,
            };
            if !stopping {
                self.tell(&instance, now)?;
                due = first(due, inner.rows.notice_due()?);
                if let Some(finished) = instance.finished_at
                    && due.is_none()
                {
                    let forget = finished.saturating_add(millis(inner.options.keep_finished));
                    if forget <= now {
                        inner
                            .rows
                            .add_notice(notices::FORGET, &instance.workflow, "", now)?;
                        continue;
                    }
                    due = Some(forget);
                }
            }
            let flying = self.run.as_ref().is_some_and(Run::is_flying);
            let soon = due.filter(|due| *due <= now.saturating_add(millis(limits::SHORT_WAIT)));
            if !flying && self.telling.is_empty() && (stopping || soon.is_none()) {
                if !stopping {
                    inner.arm(due)?;
                }
                return Ok(TaskEnd::Rest);
            }
            let late = waits::until(&*clock, due.filter(|due| *due > now), now);
            self.wait(late).await?;
        }
    }

    /// Waits until something has happened.
    async fn wait(&mut self, late: impl Future<Output = ()>) -> Result<()> {
        let inner = Rc::clone(&self.inner);
        let (signal, leaving) = match &mut self.run {
            Some(run) => (Some(Arc::clone(&run.signal)), run.leaving.as_mut()),
            None => (None, None),
        };
        let woken = waits::if_any(signal.as_ref().map(|signal| signal.woken()));
        let durable = waits::if_any(leaving.map(|leaving| &mut leaving.durable));
        let left = tokio::select! {
            biased;
            left = durable => Some(left),
            () = woken => None,
            heard = self.telling.next(), if !self.telling.is_empty() => {
                if let Some(heard) = heard {
                    inner.heard(heard)?;
                }
                None
            }
            () = inner.news.notified() => None,
            () = late => None,
        };
        if let Some(left) = left {
            left?;
            let instance = inner.rows.instance()?;
            if let Some(run) = &mut self.run {
                run.left(instance.as_ref().is_some_and(is_paused))?;
            }
        }
        Ok(())
    }

    /// Advances the run, if there is to be one.
    fn turn(&mut self, instance: &Instance, now: i64, stopping: bool) -> Result<Turn> {
        let inner = &self.inner;
        let flying = self.run.as_ref().is_some_and(Run::is_flying);
        match instance.status {
            // It starts working when its directory knows of it.
            Status::Running if instance.told == 0 => return Ok(Turn::Rest(None)),
            Status::Running => {}
            Status::Paused if flying || broken(Variant::PauseUnheeded) => {}
            Status::Stuck => {
                let since = instance.updated_at;
                let again = since.saturating_add(millis(limits::STUCK_PAUSE));
                // The time of the change is in the future if the clock was set back.
                if (since..again).contains(&now) {
                    return Ok(Turn::Rest(Some(again)));
                }
                inner.set_status(instance, Status::Running, None)?;
                return Ok(Turn::More);
            }
            _ => {
                self.run = None;
                return Ok(Turn::Rest(None));
            }
        }
        if self
            .run
            .as_ref()
            .is_some_and(|run| run.number != instance.run)
        {
            self.run = None;
        }
        inner.cancel.borrow().set(instance.cancel.is_some());
        if self.run.is_none() {
            if stopping {
                return Ok(Turn::Rest(None));
            }
            match self.begin(instance)? {
                Ok(run) => self.run = Some(run),
                Err(text) => return Ok(Turn::Stuck(text)),
            }
        }
        match &mut self.run {
            Some(run) => run.go_on(instance, &self.inner.rows, stopping),
            None => Ok(Turn::Rest(None)),
        }
    }

    /// Begins a run, from the beginning of its history.
    fn begin(&self, instance: &Instance) -> Result<Result<Run, String>> {
        let inner = &self.inner;
        let workflow = match inner.registry.get(&instance.workflow) {
            Ok(workflow) => Arc::clone(workflow),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let cancel = Rc::new(Cancel::default());
        cancel.set(instance.cancel.is_some());
        inner.cancel.replace(Rc::clone(&cancel));
        let make = {
            let inner = Rc::clone(inner);
            move |mode| {
                let Some(instance) = inner.rows.instance()? else {
                    return Err(Error::with_kind(
                        ErrorKind::NotFound,
                        "the instance is gone",
                    ));
                };
                let (rows, env) = (&inner.rows, inner.state.env());
                let replay = Replay::new(rows, env, &instance, &cancel, rows.steps()?, mode);
                let input = rows.value("input")?.unwrap_or_default();
                let future = workflow.run(Context::new(&replay), input);
                Ok(Run::new(instance.run, &replay, future))
            }
        };
        let life = make(Mode::Life)?;
        let rehearsals: Option<Rehearsals> = inner
            .options
            .rehearse
            .then(|| Box::new(move || make(Mode::Rehearsal)) as Rehearsals);
        Ok(Ok(life.with_rehearsals(rehearsals)))
    }

    /// Sends due notices.
    fn tell(&mut self, instance: &Instance, now: i64) -> Result<()> {
        let room = limits::MAX_TELLING.saturating_sub(self.telling.len());
        self.telling.extend(self.inner.tell(instance, now, room)?);
        Ok(())
    }
}

fn first(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a.into_iter().chain(b).min()
}

/// Records that a task was dropped: its instance stands still until the alarm.
struct Guard {
    inner: Rc<Inner>,
    cut_off: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.cut_off {
            self.inner.running.set(false);
        }
    }
}
