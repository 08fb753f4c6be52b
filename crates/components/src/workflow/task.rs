//! The work of an instance: it advances the run and sends notices. A [worker](abide_component::worker) does it in the
//! background.
//!
//! Contract: a step's function is called when its attempt is on disk. The run is in the task's memory: if the task is
//! dropped, or cannot write, the run begins again from its history.

use std::{future::pending, rc::Rc, sync::Arc};

use abide::{Error, ErrorKind, Result};

use super::{
    Context, Status,
    attempt::Cancel,
    inner::Inner,
    limits,
    notice::{self, NoticeResult},
    notices,
    replay::{Mode, Replay},
    rows::Instance,
    run::{self, Rehearsals, Run, is_paused},
};
use abide_component::numbers::millis;
use abide_component::waits;
use abide_component::worker::{Attempt, May, Next, Turn, Work};

impl Inner {
    /// Continues the work: now, and by the alarm in case the task stops.
    pub(super) fn kick(self: &Rc<Self>) -> Result<()> {
        self.guard()?;
        self.worker.kick(|| Task {
            inner: Rc::clone(self),
            run: None,
        });
        Ok(())
    }

    /// Starts sending due notices, within bounds.
    pub(super) fn tell(
        &self,
        instance: &Instance,
        now: i64,
        room: usize,
    ) -> Result<Vec<Attempt<NoticeResult>>> {
        let mut telling = Vec::new();
        for notice in self.rows.notices(now, room)? {
            let again = millis(notices::PATIENCE).saturating_add(notice::wait(notice.attempts));
            self.rows.telling(notice.id, now.saturating_add(again))?;
            let env = self.ctx.env().clone();
            let sent = notices::tell(env, self.teller(instance), notice);
            telling.push(Box::pin(sent) as Attempt<NoticeResult>);
        }
        Ok(telling)
    }
}

/// What a task of an instance does.
struct Task {
    inner: Rc<Inner>,
    run: Option<Run>,
}

/// What a task does next: nothing begins when a claim is on disk, because the run itself waits for its attempts' claims.
type NextTurn = Next<(), NoticeResult>;

impl Work for Task {
    type Claim = ();
    type Landed = NoticeResult;

    fn turn(&mut self, landed: &mut Vec<NoticeResult>, turn: Turn) -> Result<NextTurn> {
        // A notice whose result cannot be written is sent again.
        let mut heard = landed.drain(..);
        let heard = heard.try_for_each(|heard| self.inner.heard(heard));
        let next = heard.and_then(|()| self.advance(turn));
        if next.is_err() {
            // What it has done since the last write is not on disk.
            self.run = None;
        }
        next
    }

    /// Completes when the run is woken, or its attempts are on disk and have begun.
    async fn news(&mut self) -> Result<()> {
        let Some(run) = &mut self.run else {
            return pending().await;
        };
        let signal = Arc::clone(&run.signal);
        let durable = waits::if_any(run.leaving.as_mut().map(|leaving| &mut leaving.durable));
        tokio::select! {
            biased;
            left = durable => left?,
            () = signal.woken() => return Ok(()),
        }
        let instance = self.inner.rows.instance()?;
        run.left(instance.as_ref().is_some_and(is_paused))
    }
}

impl Task {
    /// Advances the run and sends due notices.
    fn advance(&mut self, turn: Turn) -> Result<NextTurn> {
        let inner = Rc::clone(&self.inner);
        let now = turn.now;
        loop {
            let Some(instance) = inner.rows.instance()? else {
                return Ok(Next::at(None));
            };
            if let Some(by) = inner.mind_clock(&instance, now)?
                && let Some(run) = &self.run
            {
                run.bring_nearer(by);
            }
            if turn.may == May::HandOver {
                return Ok(Next::at(None));
            }
            let stopping = turn.may == May::Finish;
            let mut next = match self.turn_of_run(&instance, now, stopping)? {
                run::Turn::Ended(result) => {
                    inner.end(&instance, &result)?;
                    continue;
                }
                run::Turn::Stuck(text) => {
                    tracing::error!(workflow = instance.workflow, instance = instance.id, %text, "a workflow is stuck");
                    self.run = None;
                    inner.set_status(&instance, Status::Stuck, Some(&text))?;
                    continue;
                }
                run::Turn::Anew(input) => {
                    self.run = None;
                    inner.begin_anew(&input)?;
                    continue;
                }
                run::Turn::More => {
                    let mut next = Next::at(Some(now));
                    next.is_busy = true;
                    return Ok(next);
                }
                run::Turn::Rest(due) => Next::at(due),
            };
            next.is_busy = self.run.as_ref().is_some_and(Run::is_flying);
            if stopping {
                next.wake = None;
                return Ok(next);
            }
            let room = limits::MAX_TELLING.saturating_sub(turn.in_flight);
            next.attempts = inner.tell(&instance, now, room)?;
            next.wake = first(next.wake, inner.rows.notice_due()?);
            if next.is_busy || turn.in_flight + next.attempts.len() > 0 {
                // What is due waits for what is in flight.
                next.wake = next.wake.filter(|at| *at > now);
            }
            if let Some(finished) = instance.finished_at
                && next.wake.is_none()
            {
                let forget = finished.saturating_add(millis(inner.options.keep_finished));
                if forget <= now {
                    let workflow = &instance.workflow;
                    inner.rows.add_notice(notice::FORGET, workflow, "", now)?;
                    // The notice is sent by the next turn.
                    next.wake = Some(now);
                } else {
                    next.wake = Some(forget);
                }
            }
            return Ok(next);
        }
    }

    /// Advances the run, if there is to be one.
    fn turn_of_run(&mut self, instance: &Instance, now: i64, stopping: bool) -> Result<run::Turn> {
        let inner = &self.inner;
        let flying = self.run.as_ref().is_some_and(Run::is_flying);
        match instance.status {
            // It starts working when its directory knows of it.
            Status::Running if instance.told == 0 => return Ok(run::Turn::Rest(None)),
            Status::Running => {}
            Status::Paused if flying => {}
            Status::Stuck => {
                let since = instance.updated_at;
                let again = since.saturating_add(millis(limits::STUCK_PAUSE));
                // The time of the change is in the future if the clock was set back.
                if (since..again).contains(&now) {
                    return Ok(run::Turn::Rest(Some(again)));
                }
                inner.set_status(instance, Status::Running, None)?;
                return Ok(run::Turn::More);
            }
            _ => {
                self.run = None;
                return Ok(run::Turn::Rest(None));
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
                return Ok(run::Turn::Rest(None));
            }
            match self.begin_run(instance)? {
                Ok(run) => self.run = Some(run),
                Err(text) => return Ok(run::Turn::Stuck(text)),
            }
        }
        match &mut self.run {
            Some(run) => run.go_on(instance, &self.inner.rows, stopping),
            None => Ok(run::Turn::Rest(None)),
        }
    }

    /// Begins a run, from the beginning of its history.
    fn begin_run(&self, instance: &Instance) -> Result<Result<Run, String>> {
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
                let (rows, env) = (&inner.rows, inner.ctx.env());
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
}

fn first(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a.into_iter().chain(b).min()
}
