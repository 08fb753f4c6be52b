//! A suspended part of an object's work, as a task of the worker's executor.
//!
//! However it is woken, it runs only if the object is alive and its input gate allows it; otherwise it parks, or ends
//! with the reason why the object is gone. Work that does not end in a turn is discarded by its object.

use std::{
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    Error, LocalFuture, Reply, Result,
    envelope::{Replier, Ticket},
    gate::Token,
    object::{Kind, Object, Turn},
    waits::Waits,
};

/// The work of a task.
pub(crate) enum Work {
    /// A handler with a waiting caller.
    Event {
        future: LocalFuture<Result<Reply>>,
        replier: Replier,
    },
    /// Background work of `spawn`.
    Background {
        future: LocalFuture<()>,
        _ticket: Ticket,
    },
    /// The task that the input gate is closed for. An error or a timeout resets the object.
    Block {
        future: LocalFuture<Result<()>>,
        until: Duration,
        _ticket: Ticket,
    },
    /// Internal work of the object: streaming a body. An error resets the object.
    Inner {
        future: LocalFuture<Result<()>>,
        _ticket: Ticket,
    },
}

impl Work {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Event { .. } => Kind::Handler,
            Self::Background { .. } => Kind::Background,
            Self::Block { .. } => Kind::Block,
            Self::Inner { .. } => Kind::Inner,
        }
    }
}

pub(crate) struct Task {
    object: Rc<Object>,
    token: Token,
    /// `None` once it is done.
    work: Option<Work>,
    waits: Option<Arc<Waits>>,
}

impl Task {
    pub(crate) fn new(
        object: Rc<Object>,
        token: Token,
        work: Work,
        waits: Option<Arc<Waits>>,
    ) -> Self {
        Self {
            object,
            token,
            work: Some(work),
            waits,
        }
    }

    /// Polls the work, inside a turn. If the poll panics, the work stays, so that its caller can be notified.
    fn step(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>> {
        if self.object.is_overdue(self.token) {
            // In a turn: writes of its destructors are kept.
            self.work = None;
            return Ok(Poll::Ready(()));
        }
        let result = match &mut self.work {
            Some(Work::Background { future, .. }) => {
                future.as_mut().poll(cx).map(|()| Step::End(Ok(())))
            }
            Some(Work::Event { future, replier }) => {
                let polled = future.as_mut().poll(cx);
                if polled.is_pending() {
                    self.object.look_for_caller(self.token, replier, cx);
                }
                polled.map(Step::Answer)
            }
            Some(Work::Block { future, .. } | Work::Inner { future, .. }) => {
                future.as_mut().poll(cx).map(Step::End)
            }
            None => return Ok(Poll::Ready(())),
        };
        let Poll::Ready(step) = result else {
            return Ok(Poll::Pending);
        };
        // The future is dropped here, while its object is still current.
        match (step, self.work.take()) {
            (Step::Answer(result), Some(Work::Event { replier, .. })) => {
                self.object.answer(replier, result);
            }
            (Step::End(result), _) => {
                result?;
                self.object.open_gate(self.token);
            }
            _ => {}
        }
        Ok(Poll::Ready(()))
    }
}

impl Task {
    /// Ends the work with a reason for its caller.
    fn give_up(&mut self, error: Error) {
        match self.work.take() {
            Some(Work::Event { future, replier }) => {
                self.object.discard(future);
                self.object.answer_broken(replier, error);
            }
            inner => self.object.discard(inner),
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // A worker that ends drops waiting tasks.
        if let Some(work) = self.work.take() {
            self.object.discard(work);
        }
    }
}

enum Step {
    Answer(Result<Reply>),
    End(Result<()>),
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let task = &mut *self;
        let (object, token) = (Rc::clone(&task.object), task.token);
        if let Some(fate) = object.fate() {
            task.give_up(fate);
            return Poll::Ready(());
        }
        if !object.may_run(token) {
            object.park(token, cx.waker());
            object.suspended(token, cx.waker());
            return Poll::Pending;
        }
        object.prepare_turn(token);
        let waits = task.waits.clone();
        match object.turn(token, || Waits::observe(waits.as_ref(), || task.step(cx))) {
            Turn::Pending => {
                object.suspended(token, cx.waker());
                Poll::Pending
            }
            Turn::Done => {
                object.finished(token);
                Poll::Ready(())
            }
            Turn::Broken(error) => {
                task.give_up(error);
                Poll::Ready(())
            }
        }
    }
}
