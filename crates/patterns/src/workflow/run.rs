//! A run: the workflow's function as far as it has come, in this life of its instance.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use abide::Result;
use futures_util::future::LocalBoxFuture;

use super::{
    Failure, Status, limits,
    replay::{Replay, Trouble},
    rows::{Instance, Rows},
    signal::Signal,
};
use crate::broken::{Variant, broken};
use crate::texts::text_of;

/// A run of an instance.
pub(super) struct Run {
    /// Which of the instance's runs this is.
    pub(super) number: i64,
    replay: Rc<Replay>,
    future: LocalBoxFuture<'static, Result<String, Failure>>,
    pub(super) signal: Arc<Signal>,
    /// Attempts that have begun and wait to be on disk.
    pub(super) leaving: Option<Leaving>,
}

/// Attempts that begin when something is on disk.
pub(super) struct Leaving {
    pub(super) durable: LocalBoxFuture<'static, Result<()>>,
    begun: Vec<usize>,
}

/// How far a run has come.
pub(super) enum Turn {
    /// It has ended.
    Ended(Result<String, Failure>),
    /// It does not fit its history.
    Stuck(String),
    /// It waits, until this time if there is one.
    Rest(Option<i64>),
    /// It goes on when others had their turn.
    More,
}

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
        }
    }

    /// True if attempts are on their way.
    pub(super) fn is_flying(&self) -> bool {
        self.leaving.is_some() || self.replay.flights(false) > 0
    }

    /// What waited to be on disk is.
    pub(super) fn left(&mut self) {
        if let Some(leaving) = self.leaving.take() {
            self.replay.let_go(&leaving.begun);
        }
    }

    /// Lets the run go as far as it can; begins nothing new in a node that stops, or if the instance is paused.
    pub(super) fn go_on(
        &mut self,
        instance: &Instance,
        rows: &Rows,
        stopping: bool,
    ) -> Result<Turn> {
        let replay = Rc::clone(&self.replay);
        for _ in 0..limits::REPLAY_BATCH {
            let polled = self.poll();
            match replay.trouble() {
                Some(Trouble::Changed(text)) => return Ok(Turn::Stuck(text)),
                Some(Trouble::Storage(error)) => return Err(error),
                None => {}
            }
            match polled {
                Polled::Ended(result) => {
                    return Ok(replay.misses(true).map_or(Turn::Ended(result), Turn::Stuck));
                }
                Polled::Panicked(text) => {
                    return Ok(Turn::Stuck(format!(
                        "the workflow panicked: {text}: mend the program, and resume this instance"
                    )));
                }
                Polled::Restless => return Ok(Turn::More),
                Polled::Rest => {}
            }
            if let Some(text) = replay.misses(false) {
                return Ok(Turn::Stuck(text));
            }
            if replay.deliver() {
                continue;
            }
            let is_paused = instance.status == Status::Paused && !broken(Variant::PauseUnheeded);
            if stopping || is_paused {
                return Ok(Turn::Rest(None));
            }
            let canceling = instance.cancel.is_some()
                && !replay.is_canceled()
                && !broken(Variant::CancelIgnored);
            if canceling && replay.flights(true) == 0 {
                replay.cancel()?;
                continue;
            }
            if replay.advance(canceling)? {
                continue;
            }
            if self.leaving.is_none() {
                let begun = replay.begin(canceling)?;
                if !begun.is_empty() {
                    let storage = rows.storage.clone();
                    self.leaving = Some(Leaving {
                        durable: if broken(Variant::AttemptNotDurable) {
                            Box::pin(async { Ok(()) })
                        } else {
                            Box::pin(async move { storage.sync().await })
                        },
                        begun,
                    });
                }
            }
            return Ok(Turn::Rest(replay.due(canceling)));
        }
        Ok(Turn::More)
    }

    /// Polls until nothing has woken the run.
    fn poll(&mut self) -> Polled {
        let waker = self.signal.waker();
        let mut cx = TaskContext::from_waker(&waker);
        for _ in 0..limits::RESTLESS_POLLS {
            self.signal.take();
            let future = &mut self.future;
            match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx))) {
                Err(panic) => return Polled::Panicked(text_of(&*panic).to_owned()),
                Ok(Poll::Ready(result)) => return Polled::Ended(result),
                Ok(Poll::Pending) if self.signal.is_woken() => {}
                Ok(Poll::Pending) => return Polled::Rest,
            }
        }
        Polled::Restless
    }
}
