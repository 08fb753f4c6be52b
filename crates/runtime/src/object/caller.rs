//! Handlers that want to know when their caller no longer waits.

use std::{
    cell::{Cell, RefCell},
    fmt,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use super::Object;
use crate::{envelope::Replier, gate::Token};

/// Whether the caller of a handler has gone, and who waits for that.
#[derive(Debug, Default)]
pub(super) struct CallerWatch {
    is_gone: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

/// Completes when the caller of a handler no longer waits. Returned by [`Ctx::caller_gone`](crate::Ctx::caller_gone).
#[must_use = "it does nothing without `.await`"]
pub struct CallerGone(Rc<CallerWatch>);

impl Future for CallerGone {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.is_gone.get() {
            return Poll::Ready(());
        }
        let mut wakers = self.0.wakers.borrow_mut();
        // Each part of a handler may have its own waker.
        if !wakers.iter().any(|known| known.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl fmt::Debug for CallerGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallerGone")
            .field(&self.0.is_gone.get())
            .finish()
    }
}

impl Object {
    /// See [`Ctx::caller_gone`](crate::Ctx::caller_gone).
    pub(crate) fn caller_gone(&self) -> CallerGone {
        // The result of a keyed call is kept for the caller that repeats it.
        if self.keyed_poll.borrow().is_some() {
            return CallerGone(Rc::default());
        }
        let mut watched = self.callers.borrow_mut();
        CallerGone(Rc::clone(watched.entry(self.turn_of.get()).or_default()))
    }

    /// Looks whether the caller of a suspended handler has gone, if the handler has asked. The handler's task is woken
    /// when it goes.
    pub(crate) fn look_for_caller(
        &self,
        token: Token,
        replier: &mut Replier,
        cx: &mut Context<'_>,
    ) {
        let watched = self.callers.borrow();
        let Some(watch) = watched.get(&token) else {
            return;
        };
        if replier.poll_gone(cx).is_ready() && !watch.is_gone.replace(true) {
            watch.wakers.take().into_iter().for_each(Waker::wake);
        }
    }
}
