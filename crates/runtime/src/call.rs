//! A call that is on its way.

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

/// What the reply channel of an event carries: only what the output gate let out.
pub(crate) type Answer = Released<Result<Reply>>;

/// The answer to a call of an object, or to a request that leaves the node, later.
///
/// The call was sent when the stub's method was called: calls on one stub start in the order in which they
/// were made, and dropping this future does not stop the handler. A call that is made inside an object leaves
/// when what the object wrote before it is durable.
#[must_use = "the call is on its way, but without `.await` nobody learns its outcome"]
pub struct Call<R> {
    state: State,
    decode: fn(Reply) -> Result<R>,
    /// Who makes the call, if that matters to a closed gate.
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
