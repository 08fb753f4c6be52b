//! Code of the program that a departure calls for: HTTP clients, and destructors of what nobody took.
//!
//! The log's writer thread hands it over, so that nothing of the program keeps the log waiting; a task of the node runs it.
//! A worker runs it in place, unless some of it waits already: errands are run in the order in which they left. Whatever an
//! errand does, the next one is run.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{mpsc, watch};

use super::{Released, Remains};
use crate::{
    Error, ErrorKind, Fetching, context, outbound::OutgoingRequest, stats::Counter, unwind::guarded,
};

/// What is left to do when something has left. Bounded by the tickets of the events that it belongs to.
pub(crate) enum Errand {
    /// A request is to be handed to the client.
    Fetch(Box<OutgoingRequest>),
    /// Nobody wants this any more.
    Drop(Remains),
}

pub(crate) struct Egress {
    errands: mpsc::UnboundedSender<Errand>,
    /// Taken by the task that runs them.
    receiver: Mutex<Option<mpsc::UnboundedReceiver<Errand>>>,
    /// How many were handed over and are not done.
    waiting: AtomicUsize,
    /// Panics of code of the program that runs outside of objects' turns.
    pub(crate) panics: Counter,
}

impl Egress {
    pub(crate) fn new() -> Arc<Self> {
        let (errands, receiver) = mpsc::unbounded_channel();
        Arc::new(Self {
            errands,
            receiver: Mutex::new(Some(receiver)),
            waiting: AtomicUsize::new(0),
            panics: Counter::default(),
        })
    }

    /// Runs errands until the node stops, and then those that are left.
    pub(crate) async fn run(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        let receiver = self
            .receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut receiver) = receiver else {
            return;
        };
        loop {
            tokio::select! {
                biased;
                Some(errand) = receiver.recv() => self.work_off(errand),
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        receiver.close();
        while let Ok(errand) = receiver.try_recv() {
            self.work_off(errand);
        }
    }

    fn work_off(&self, errand: Errand) {
        errand.run(&self.panics);
        self.waiting.fetch_sub(1, Ordering::Release);
    }

    /// Has an errand run by the node's task.
    pub(super) fn hand_over(&self, errand: Errand) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(mpsc::error::SendError(mut errand)) = self.errands.send(errand) {
            // The node has stopped.
            if let Errand::Fetch(request) = &mut errand {
                request.fail(Error::stopping());
            }
            self.work_off(errand);
        }
    }

    /// Runs an errand on this thread, or after those that wait.
    pub(super) fn run_here(&self, errand: Errand) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            errand.run(&self.panics);
        } else {
            self.hand_over(errand);
        }
    }
}

impl Errand {
    fn run(self, panics: &Counter) {
        match self {
            Self::Drop(remains) => drop_guarded(panics, remains),
            Self::Fetch(request) => send(*request, panics),
        }
    }
}

/// Hands a request to the client. What brings its response goes to whoever made it, who may be gone.
fn send(request: OutgoingRequest, panics: &Counter) {
    let OutgoingRequest {
        client,
        request,
        failure,
        left,
        ticket,
    } = request;
    let fetching: Fetching = match failure {
        Some(error) => {
            drop_guarded(panics, request);
            Box::pin(std::future::ready(Err(error)))
        }
        None => guarded(panics, "the HTTP client", || {
            context::outside(|| client.fetch(request))
        })
        .unwrap_or_else(|panic| Box::pin(std::future::ready(Err(panicked(&panic))))),
    };
    if let Err(nobody) = left.send(Released::new(fetching)) {
        drop_guarded(panics, nobody);
    }
    drop_guarded(panics, client);
    drop(ticket);
}

fn panicked(panic: &str) -> Error {
    Error::with_kind(
        ErrorKind::Io,
        format!("the HTTP client panicked, so the request may or may not have been sent: {panic}"),
    )
}

/// Drops a value whose destructor may be the program's.
fn drop_guarded<T>(panics: &Counter, value: T) {
    // The panic was logged and counted.
    let _ = guarded(panics, "a destructor", || drop(value));
}
