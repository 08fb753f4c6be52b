//! A run: the execution of the workflow's function in this activation of its instance.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use abide::{Result, Storage};
use futures_util::future::LocalBoxFuture;

use super::{
    Failure, Status, limits,
    replay::{Replay, Trouble, WHAT_TO_DO},
    rows::{Instance, Rows},
    signal::Signal,
};
use abide_component::texts::Panicked;

/// A run of an instance.
pub(super) struct Run {
    /// The number of this run of the instance.
    pub(super) number: i64,
    replay: Rc<Replay>,
    future: LocalBoxFuture<'static, Result<String, Failure>>,
    pub(super) signal: Arc<Signal>,
    /// Attempts that have begun and wait to be on disk.
    pub(super) leaving: Option<PendingAttempts>,
    rehearsals: Option<Rehearsals>,
    /// The position of the run at the last rehearsal.
    rehearsed: (i64, usize),
}

/// Attempts that begin when something is on disk.
pub(super) struct PendingAttempts {
    pub(super) durable: LocalBoxFuture<'static, Result<()>>,
    begun: Vec<usize>,
}

/// The state of a run.
pub(super) enum Turn {
    /// It has ended.
    Ended(Result<String, Failure>),
    /// It does not match its history.
    Stuck(String),
    /// It waits, until this time if there is one.
    Rest(Option<i64>),
    /// It continues when others had their turn.
    More,
    /// It has ended, and another run follows with this input.
    Anew(String),
}

/// Whether a run has received all results that have a position.
enum CaughtUp {
    Yes,
    /// It received one.
    Not,
    Turn(Turn),
}

/// Creates a run for a rehearsal.
pub(super) type Rehearsals = Box<dyn Fn() -> Result<Run>>;

enum Polled {
    Ended(Result<String, Failure>),
    Panicked(String),
    Rest,
    Restless,
}

impl Run {
    pub(super) fn new(
        number: i64,
        replay: &Rc<Replay>,
        future: LocalBoxFuture<'static, Result<String, Failure>>,
    ) -> Self {
        Self {
            number,
            replay: Rc::clone(replay),
            future,
            signal: Arc::default(),
            leaving: None,
            rehearsals: None,
            rehearsed: (0, 0),
        }
    }

    /// Replays the history separately after each result.
    pub(super) fn with_rehearsals(mut self, rehearsals: Option<Rehearsals>) -> Self {
        self.rehearsals = rehearsals;
        self
    }

    /// Moves its relative waits earlier by this much.
    pub(super) fn bring_nearer(&self, by: i64) {
        self.replay.bring_nearer(by);
    }

    /// True if attempts are running.
    pub(super) fn is_flying(&self) -> bool {
        self.leaving.is_some() || self.replay.flights(false) > 0
    }

    /// The claims are on disk. If the instance was paused meanwhile, nothing begins.
    pub(super) fn left(&mut self, paused: bool) -> Result<()> {
        match self.leaving.take() {
            Some(leaving) if paused => self.replay.give_back(&leaving.begun),
            Some(leaving) => {
                self.replay.let_go(&leaving.begun);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Advances the run as far as possible; starts nothing new on a node that shuts down, or if the instance is paused.
    pub(super) fn go_on(
        &mut self,
        instance: &Instance,
        rows: &Rows,
        stopping: bool,
    ) -> Result<Turn> {
        let replay = Rc::clone(&self.replay);
        for _ in 0..limits::REPLAY_BATCH {
            match self.catch_up()? {
                CaughtUp::Not => continue,
                CaughtUp::Turn(turn) => return Ok(turn),
                CaughtUp::Yes => {}
            }
            if stopping || is_paused(instance) {
                return Ok(Turn::Rest(None));
            }
            if let Some(text) = self.rehearse()? {
                return Ok(Turn::Stuck(text));
            }
            let canceling = is_to_be_canceled(instance) && !replay.is_canceled();
            replay.end_cut_off(canceling)?;
            if replay.advance(canceling)? {
                continue;
            }
            if canceling && replay.flights(true) == 0 {
                replay.cancel()?;
                continue;
            }
            if self.leaving.is_none() {
                let begun = replay.begin(canceling)?;
                if !begun.is_empty() {
                    let durable = durable(rows.storage.clone());
                    self.leaving = Some(PendingAttempts { durable, begun });
                }
            }
            return Ok(Turn::Rest(replay.due(canceling)));
        }
        Ok(Turn::More)
    }

    /// Polls the run until it makes no more progress, and delivers the next result that has a position.
    fn catch_up(&mut self) -> Result<CaughtUp> {
        let replay = &Rc::clone(&self.replay);
        let stuck = |text| Ok(CaughtUp::Turn(Turn::Stuck(text)));
        let polled = self.poll();
        match replay.trouble() {
            Some(Trouble::Changed(text)) => return stuck(text),
            Some(Trouble::Storage(error)) => return Err(error),
            None => {}
        }
        if let Some(input) = replay.successor() {
            let turn = replay.misses(true).map_or(Turn::Anew(input), Turn::Stuck);
            return Ok(CaughtUp::Turn(turn));
        }
        match polled {
            Polled::Ended(result) => {
                let turn = replay.misses(true).map_or(Turn::Ended(result), Turn::Stuck);
                return Ok(CaughtUp::Turn(turn));
            }
            Polled::Panicked(shown) => {
                return stuck(format!(
                    "{shown}: fix the program, and resume this instance"
                ));
            }
            Polled::Restless => return Ok(CaughtUp::Turn(Turn::More)),
            Polled::Rest => {}
        }
        if !replay.is_canceling()
            && let Some(text) = replay.misses(false)
        {
            return stuck(text);
        }
        Ok(if replay.deliver() {
            CaughtUp::Not
        } else {
            CaughtUp::Yes
        })
    }

    /// Replays the history separately, if rehearsals are on; returns an error if the replay differs from the run.
    fn rehearse(&mut self) -> Result<Option<String>> {
        let now = self.replay.progress();
        let Some(make) = self.rehearsals.as_ref().filter(|_| now != self.rehearsed) else {
            return Ok(None);
        };
        self.rehearsed = now;
        let mut run = make()?;
        loop {
            let what = match run.catch_up()? {
                CaughtUp::Not => continue,
                CaughtUp::Yes => break,
                // It wakes itself all the time, and other objects would wait.
                CaughtUp::Turn(Turn::More) => return Ok(None),
                CaughtUp::Turn(Turn::Stuck(text)) => text,
                CaughtUp::Turn(_) => "it ended".to_owned(),
            };
            return Ok(Some(format!("in a replay, {what}")));
        }
        let (life, replay) = (self.replay.waits_for(), run.replay.waits_for());
        Ok((life != replay).then(|| {
            format!("in a replay, it waits for {replay:?} instead of {life:?}: {WHAT_TO_DO}")
        }))
    }

    /// Polls until nothing has woken the run.
    fn poll(&mut self) -> Polled {
        let waker = self.signal.waker();
        let mut cx = TaskContext::from_waker(&waker);
        for _ in 0..limits::RESTLESS_POLLS {
            self.signal.take();
            let future = &mut self.future;
            match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx))) {
                Err(panic) => {
                    let Panicked { text, shown } = Panicked::new("the workflow", &*panic);
                    tracing::error!(%text, error = shown, "a workflow panicked");
                    return Polled::Panicked(shown);
                }
                Ok(Poll::Ready(result)) => return Polled::Ended(result),
                Ok(Poll::Pending) if self.signal.is_woken() => {}
                Ok(Poll::Pending) => return Polled::Rest,
            }
        }
        Polled::Restless
    }
}

pub(super) fn is_paused(instance: &Instance) -> bool {
    instance.status == Status::Paused
}

fn is_to_be_canceled(instance: &Instance) -> bool {
    instance.cancel.is_some()
}

/// Ends when what was written is on disk.
fn durable(storage: Storage) -> LocalBoxFuture<'static, Result<()>> {
    Box::pin(async move { storage.sync().await })
}
