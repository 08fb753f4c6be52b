//! Code of the program that a departure requires: HTTP clients, and destructors of undelivered values.
//!
//! The log's writer thread queues it, so that no code of the program delays the log, and a background task of the node
//! runs it. A worker runs it in place if the queue is empty, and queues it otherwise, so tasks run in the order of
//! their departures. A panic in a task does not stop the next.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{mpsc, oneshot, watch};

use super::{Discarded, Released};
use crate::{
    Error, ErrorKind, Fetching, Outbound, Request, envelope::Ticket, holder, stats::Counter,
    unwind::guarded,
};

/// A request that waits at an output gate.
pub(crate) struct OutgoingRequest {
    pub(crate) client: Arc<dyn Outbound>,
    pub(crate) request: Request,
    /// Why it must not be sent.
    pub(crate) failure: Option<Error>,
    pub(crate) left: oneshot::Sender<Released<Fetching>>,
    /// Bounds what the gate holds.
    pub(crate) ticket: Ticket,
}

impl OutgoingRequest {
    /// Marks the request as failed: it must not be sent.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
    }
}

/// The remaining work of a departure. Bounded by the tickets of the events that it belongs to.
pub(crate) enum EgressTask {
    /// Pass a request to the client.
    Fetch(Box<OutgoingRequest>),
    /// Drop a value that was not received.
    Drop(Discarded),
}

pub(crate) struct Egress {
    tasks: mpsc::UnboundedSender<EgressTask>,
    /// Taken by the task that runs the queue.
    receiver: Mutex<Option<mpsc::UnboundedReceiver<EgressTask>>>,
    /// Number of queued and running tasks.
    waiting: AtomicUsize,
    /// Panics in code of the program that runs outside of objects' turns.
    pub(crate) panics: Counter,
}

impl Egress {
    pub(crate) fn new() -> Arc<Self> {
        let (tasks, receiver) = mpsc::unbounded_channel();
        Arc::new(Self {
            tasks,
            receiver: Mutex::new(Some(receiver)),
            waiting: AtomicUsize::new(0),
            panics: Counter::default(),
        })
    }

    /// Runs tasks until the node stops, and then the remaining ones.
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
                Some(task) = receiver.recv() => self.run_queued(task),
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        receiver.close();
        while let Ok(task) = receiver.try_recv() {
            self.run_queued(task);
        }
    }

    fn run_queued(&self, task: EgressTask) {
        task.run(&self.panics);
        self.waiting.fetch_sub(1, Ordering::Release);
    }

    /// True if tasks are queued or run.
    pub(crate) fn is_busy(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Queues a task for the background task.
    pub(super) fn queue(&self, task: EgressTask) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(mpsc::error::SendError(mut task)) = self.tasks.send(task) {
            // The node has stopped.
            if let EgressTask::Fetch(request) = &mut task {
                request.fail(Error::stopping());
            }
            self.run_queued(task);
        }
    }

    /// Runs a task on this thread, or queues it if others are waiting.
    pub(super) fn run_here(&self, task: EgressTask) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            task.run(&self.panics);
        } else {
            self.queue(task);
        }
    }
}

impl EgressTask {
    fn run(self, panics: &Counter) {
        match self {
            Self::Drop(discarded) => drop_guarded(panics, discarded),
            Self::Fetch(request) => send(*request, panics),
        }
    }
}

/// Passes a request to the client. The future of its response goes to the caller, who may be gone.
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
            holder::outside(|| client.fetch(request))
        })
        .unwrap_or_else(|_| Box::pin(std::future::ready(Err(panicked())))),
    };
    if let Err(unsent) = left.send(Released::new(fetching)) {
        drop_guarded(panics, unsent);
    }
    drop_guarded(panics, client);
    drop(ticket);
}

fn panicked() -> Error {
    Error::with_kind(
        ErrorKind::Io,
        "the HTTP client panicked, so the request may or may not have been sent; the log has the details",
    )
}

/// Drops a value whose destructor may be code of the program.
fn drop_guarded<T>(panics: &Counter, value: T) {
    // The panic was logged and counted.
    let _ = guarded(panics, "a destructor", || drop(value));
}
