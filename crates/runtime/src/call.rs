//! A call in progress.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;

use crate::{
    Error, Fetching, Reply, Result,
    chain::Link,
    clock::Sleep,
    gate::Released,
    waits::{self, Wait, WaitFor},
};

/// The content of an event's reply channel: only values that the output gate has released.
pub(crate) type Answer = Released<Result<Reply>>;

/// What a method has returned: a value, or its own error.
type Returned<R, E> = Result<R, E>;

/// The future result of a call of an object, or of a request that leaves the node. It ends as the method has ended: with
/// its value, or with its error `E`.
///
/// If there was no answer, it ends with an [`Error`] that is not [remote](Error::remote), converted into `E`: a method's
/// own error type has `From<abide::Error>`. To tell the two apart whatever `E` is, await [`answer`](Self::answer).
///
/// The call is sent when the stub's method is called. Calls on one stub start in the order in which they were made, and
/// dropping this future does not stop the handler. A call made inside an object leaves once the object's earlier writes
/// are durable.
#[must_use = "the call has been sent, but its outcome is unknown without `.await`"]
pub struct Call<R, E = Error> {
    state: State,
    decode: fn(Reply) -> Result<Returned<R, E>>,
    /// The task that makes the call, if that matters for a closed gate.
    link: Option<Arc<Link>>,
    wait: Option<Wait>,
    /// Ends when the caller no longer waits.
    limit: Option<Sleep>,
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

impl<R, E> Call<R, E> {
    pub(crate) fn waiting(
        answer: oneshot::Receiver<Answer>,
        decode: fn(Reply) -> Result<Returned<R, E>>,
        link: Option<Arc<Link>>,
        limit: Option<Sleep>,
    ) -> Self {
        Self {
            state: State::Waiting(answer),
            decode,
            link,
            wait: None,
            limit,
        }
    }

    pub(crate) fn leaving(
        left: oneshot::Receiver<Released<Fetching>>,
        decode: fn(Reply) -> Result<Returned<R, E>>,
    ) -> Self {
        Self {
            state: State::Leaving(left),
            decode,
            link: None,
            wait: None,
            limit: None,
        }
    }

    pub(crate) fn outside(fetching: Fetching, decode: fn(Reply) -> Result<Returned<R, E>>) -> Self {
        Self {
            state: State::Outside(fetching),
            decode,
            link: None,
            wait: None,
            limit: None,
        }
    }

    pub(crate) fn failed(error: Error, decode: fn(Reply) -> Result<Returned<R, E>>) -> Self {
        Self {
            state: State::Failed(error),
            decode,
            link: None,
            wait: None,
            limit: None,
        }
    }
}

impl<R, E: From<Error>> Future for Call<R, E> {
    type Output = Result<R, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R, E>> {
        let answer = self.poll_answer(cx);
        answer.map(|answer| answer.unwrap_or_else(|error| Err(error.into())))
    }
}

impl<R, E> Call<R, E> {
    /// Awaits the answer and keeps its two layers apart: the outer error says that there was no answer, the inner result
    /// is what the method has returned.
    ///
    /// ```
    /// # use abide_runtime as abide;
    /// # async fn is_free(call: abide::Call<bool>) -> abide::Result<Option<bool>> {
    /// match call.answer().await {
    ///     Ok(returned) => returned.map(Some),
    ///     Err(no_answer) if no_answer.retryable() => Ok(None),
    ///     Err(no_answer) => Err(no_answer),
    /// }
    /// # }
    /// ```
    pub async fn answer(mut self) -> Result<Result<R, E>> {
        poll_fn(|cx| self.poll_answer(cx)).await
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Returned<R, E>>> {
        let call = self;
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
                    match &mut call.limit {
                        Some(limit) => ready!(limit.as_mut().poll(cx)),
                        None => return Poll::Pending,
                    }
                    Err(Error::out_of_time().into_maybe_ran())
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

impl<R, E> fmt::Debug for Call<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
