//! A call in progress.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::{
    Error, Fetching, Reply, Result,
    chain::Link,
    gate::Released,
    waits::{self, Wait, WaitFor},
};

/// The content of an event's reply channel: only values that the output gate has released.
pub(crate) type Answer = Released<Result<Reply>>;

/// The future result of a call of an object, or of a request that leaves the node.
///
/// The call is sent when the stub's method is called. Calls on one stub start in the order in which they were made, and
/// dropping this future does not stop the handler. A call made inside an object leaves once the object's earlier writes
/// are durable.
#[must_use = "the call has been sent, but its outcome is unknown without `.await`"]
pub struct Call<R> {
    state: State,
    decode: fn(Reply) -> Result<R>,
    /// The task that makes the call, if that matters for a closed gate.
    link: Option<Arc<Link>>,
    wait: Option<Wait>,
}

enum State {
    Waiting(oneshot::Receiver<Answer>),
    /// A request that has not left the node yet.
    Leaving(oneshot::Receiver<Released<Fetching>>),
    /// A request that has left the node.
    Outside(Fetching),
    Failed(Error),
    Done,
}

impl<R> Call<R> {
    pub(crate) fn waiting(
        answer: oneshot::Receiver<Answer>,
        decode: fn(Reply) -> Result<R>,
        link: Option<Arc<Link>>,
    ) -> Self {
        Self {
            state: State::Waiting(answer),
            decode,
            link,
            wait: None,
        }
    }

    pub(crate) fn leaving(
        left: oneshot::Receiver<Released<Fetching>>,
        decode: fn(Reply) -> Result<R>,
    ) -> Self {
        Self {
            state: State::Leaving(left),
            decode,
            link: None,
            wait: None,
        }
    }

    pub(crate) fn outside(fetching: Fetching, decode: fn(Reply) -> Result<R>) -> Self {
        Self {
            state: State::Outside(fetching),
            decode,
            link: None,
            wait: None,
        }
    }

    pub(crate) fn failed(error: Error, decode: fn(Reply) -> Result<R>) -> Self {
        Self {
            state: State::Failed(error),
            decode,
            link: None,
            wait: None,
        }
    }
}

impl<R> Future for Call<R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        let call = &mut *self;
        if let Some(link) = &call.link {
            link.wait();
        }
        if let State::Leaving(left) = &mut call.state {
            call.state = match Pin::new(left).poll(cx) {
                Poll::Pending => {
                    Wait::note(&mut call.wait, WaitFor::Server);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(left)) => State::Outside(left.into_inner()),
                Poll::Ready(Err(_)) => State::Failed(Error::stopping()),
            };
        }
        let answer = match &mut call.state {
            State::Outside(fetching) => match waits::sleeps(|| fetching.as_mut().poll(cx)) {
                // A double of the server that answers at some time of the clock.
                (Poll::Pending, true) => {
                    call.wait = None;
                    return Poll::Pending;
                }
                (Poll::Pending, false) => {
                    Wait::note(&mut call.wait, WaitFor::Server);
                    return Poll::Pending;
                }
                (Poll::Ready(response), _) => response.map(Reply::Fetch),
            },
            State::Waiting(receiver) => match Pin::new(receiver).poll(cx) {
                Poll::Pending => {
                    Wait::note(&mut call.wait, WaitFor::Object);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(answer)) => answer.into_inner(),
                Poll::Ready(Err(_)) => Err(Error::stopping().into_maybe_ran()),
            },
            State::Leaving(_) | State::Failed(_) | State::Done => {
                match std::mem::replace(&mut call.state, State::Done) {
                    State::Failed(error) => Err(error),
                    _ => panic!("a call was polled after it had been answered"),
                }
            }
        };
        call.state = State::Done;
        call.wait = None;
        Poll::Ready(answer.and_then(call.decode))
    }
}

impl<R> fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
