//! Routes from a stub to the worker that an object is on.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering, fence},
};

use abide_storage::{Progress, Store};
use tokio::sync::watch;

use crate::{
    Error, ObjectId, Outbound, Result,
    clock::Clock,
    creator::CreationLimit,
    envelope::{Drain, Mailbox},
    gate::Egress,
    node_clock::NodeClock,
    placement::Placement,
    random::Randomness,
    socket::WebSocketOptions,
    unwind::guarded,
    whereabouts::Whereabouts,
};

/// The phase of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running = 0,
    /// Accepts calls only from objects, so that handlers can finish.
    Draining = 1,
    Stopped = 2,
}

/// What the program supplies to a node.
pub(crate) struct NodeParts {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) randomness: Arc<dyn Randomness>,
    pub(crate) websockets: WebSocketOptions,
    /// The HTTP client for requests to other servers.
    pub(crate) outbound: Option<Arc<dyn Outbound>>,
    pub(crate) creation: Option<Arc<dyn CreationLimit>>,
    pub(crate) whereabouts: Option<Arc<dyn Whereabouts>>,
    pub(crate) rehearsal: bool,
}

pub(crate) struct Router {
    /// The cold ones last.
    pub(crate) workers: Box<[Arc<Mailbox>]>,
    pub(crate) placement: Arc<Placement>,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) randomness: Arc<dyn Randomness>,
    pub(crate) websockets: WebSocketOptions,
    /// The HTTP client for requests to other servers.
    pub(crate) outbound: Option<Arc<dyn Outbound>>,
    /// Limits how many objects each creator may create.
    pub(crate) creation: Option<Arc<dyn CreationLimit>>,
    /// Where the objects are that this node does not have.
    pub(crate) whereabouts: Option<Arc<dyn Whereabouts>>,
    /// Objects are made, and do nothing themselves: see [`NodeBuilder::rehearsal`](crate::NodeBuilder::rehearsal).
    pub(crate) rehearsal: bool,
    pub(crate) drain: Arc<Drain>,
    pub(crate) egress: Arc<Egress>,
    /// The log has failed, or a thread of the node has ended unexpectedly.
    pub(crate) failed: watch::Sender<bool>,
    pub(crate) stopped: watch::Sender<bool>,
    phase: AtomicU8,
}

impl Router {
    pub(crate) fn new(
        workers: Box<[Arc<Mailbox>]>,
        placement: Placement,
        store: Store,
        parts: NodeParts,
        drain: Arc<Drain>,
        egress: Arc<Egress>,
    ) -> Arc<Self> {
        let NodeParts {
            clock,
            randomness,
            websockets,
            outbound,
            creation,
            whereabouts,
            rehearsal,
        } = parts;
        if let Err(error) = store.catch_up_with_clock() {
            tracing::warn!(%error, "cannot save yet that the wall clock was set back");
        }
        let router = Arc::new_cyclic(|router| Self {
            workers,
            placement: Arc::new(placement),
            store,
            clock: Arc::new(NodeClock::new(clock, router.clone())),
            randomness,
            websockets,
            outbound,
            creation,
            whereabouts,
            rehearsal,
            drain,
            egress,
            failed: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            phase: AtomicU8::new(Phase::Running as u8),
        });
        let watch = Arc::downgrade(&router);
        router.store.watch_clock(move || {
            if let Some(router) = watch.upgrade() {
                router.clock.unix_millis();
                drop_router(router);
            }
        });
        let listener = Arc::downgrade(&router);
        router.store.subscribe(Box::new(move |progress| {
            if let Some(router) = listener.upgrade() {
                router.log_moved(progress);
                drop_router(router);
            }
        }));
        // It may have failed before there was a listener.
        if router.store.failed() {
            router.log_moved(Progress::Failed);
        }
        router
    }

    pub(crate) fn worker_of(&self, id: &ObjectId) -> &Arc<Mailbox> {
        &self.workers[self.placement.worker_of(id)]
    }

    /// The workers whose threads must not be blocked. A cold one may wait for the archive.
    pub(crate) fn warm_workers(&self) -> &[Arc<Mailbox>] {
        &self.workers[..self.placement.workers()]
    }

    /// How many of them are blocked.
    pub(crate) fn stuck_workers(&self) -> usize {
        let workers = self.warm_workers().iter();
        workers.filter(|worker| worker.watch.is_stuck()).count()
    }

    /// Returns whether every event has been answered, checking each worker once.
    pub(crate) fn is_drained(&self) -> bool {
        self.workers.iter().all(|worker| worker.outstanding() == 0)
    }

    /// Returns an error if the node is stopping.
    pub(crate) fn must_run(&self) -> Result<()> {
        match self.phase() {
            Phase::Running => Ok(()),
            Phase::Draining | Phase::Stopped => Err(Error::stopping()),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Stopped,
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.drain.wanted.store(true, Ordering::Release);
        // Pairs with the fence in `Ticket::drop`: either the last ticket sees that it must signal, or a check after
        // this sees that nothing is outstanding.
        fence(Ordering::SeqCst);
        if phase == Phase::Stopped {
            self.workers.iter().for_each(|worker| worker.stop());
            self.stopped.send_replace(true);
        }
    }

    /// Releases what has waited for the lease.
    pub(crate) fn lease_regained(&self) {
        self.log_moved(Progress::Durable(self.store.durable()));
    }

    /// Called on the log's writer thread. All listeners are notified even if code of the program panics.
    fn log_moved(&self, progress: Progress) {
        match progress {
            Progress::Durable(lsn) => self
                .workers
                .iter()
                .for_each(|worker| worker.lane.release_through(lsn)),
            Progress::Failed => {
                self.workers
                    .iter()
                    .for_each(|worker| worker.lane.fail(&Error::log_failed()));
                // The panic was logged and counted.
                let _ = guarded(&self.egress.panics, "the waker of a failure", || {
                    self.failed.send_replace(true)
                });
            }
        }
    }
}

/// Fails everything held: it will not be released any more.
impl Drop for Router {
    fn drop(&mut self) {
        let error = Error::stopping().into_maybe_ran();
        self.workers
            .iter()
            .for_each(|worker| worker.lane.fail(&error));
    }
}

/// Drops the router on the log's writer thread. The last drop runs destructors of the program, which may take long or
/// panic, so they run on their own thread.
pub(crate) fn drop_router(router: Arc<Router>) {
    if let Some(router) = Arc::into_inner(router) {
        // If no thread can be started, it is dropped here.
        let _ = std::thread::Builder::new()
            .name("abide-end".to_owned())
            .spawn(move || drop(router));
    }
}
