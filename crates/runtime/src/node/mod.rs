//! A node: workers and classes, with the store that they share.

mod builder;

use std::{
    fmt,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use abide_storage::{AlarmCursor, AlarmState, Store};
use tokio::sync::oneshot;

pub use self::builder::{NodeBuilder, Registrar};
use crate::{
    AlarmListing, AlarmStatus, AnyStub, CommitStall, Env, Error, ErrorKind, NodeStats, Result,
    alarms::{AlarmRequest, Cause},
    envelope::Replier,
    limits::{EVENT_BYTES, FOR_EVER, MAX_LISTED_ALARMS},
    router::{Phase, Router},
    socket::WebSocketConnector,
    watchdog,
};

/// How long a worker may take to drop its objects after the handlers' grace period.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A running node. Clones share the same node; it stops when [`shutdown`](Self::shutdown) is called or the last clone
/// is dropped.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    env: Env,
    router: Arc<Router>,
    threads: Mutex<Vec<WorkerThread>>,
    /// Held so that its destructor, which is code of the program, does not run on a worker's thread.
    _connector: Option<Arc<dyn WebSocketConnector>>,
}

/// A thread, and the signal that it is about to end.
struct WorkerThread {
    thread: JoinHandle<()>,
    ended: oneshot::Receiver<()>,
}

impl Node {
    /// Prepares a node on an open store.
    pub fn builder(store: Store) -> NodeBuilder {
        NodeBuilder::new(store)
    }

    /// The environment, which gives access to the objects.
    pub fn env(&self) -> &Env {
        &self.0.env
    }

    /// The underlying store.
    pub fn store(&self) -> &Store {
        &self.0.router.store
    }

    /// Releases what has waited at the output gate for the lease ([`NodeBuilder::output_lease`]), if it is held.
    pub fn lease_regained(&self) {
        self.0.router.lease_regained();
    }

    /// Current statistics.
    pub fn stats(&self) -> NodeStats {
        watchdog::stats(&self.0.router)
    }

    /// Publishes the current metrics to the program's `metrics` recorder, and calls `read` before another node of the
    /// process can publish: the gauges that it reads from the recorder are those of this node. The node also publishes
    /// every second on its own.
    pub fn publish_metrics<R>(&self, read: impl FnOnce() -> R) -> R {
        watchdog::publish(&self.0.router, self.0.env.bindings(), read)
    }

    /// The number of workers that are blocked by a handler that runs without awaiting.
    pub fn stuck_workers(&self) -> usize {
        self.0.router.stuck_workers()
    }

    /// The stall of the node's commits, if there is one: they have waited longer than [`COMMIT_STALL`](crate::limits::COMMIT_STALL).
    pub fn commit_stall(&self) -> Option<CommitStall> {
        CommitStall::of(self.store())
    }

    /// The objects with alarms in this state, ordered by the time of the first, after a position in the list; at most
    /// `limit`, and at most [`MAX_LISTED_ALARMS`](crate::limits::MAX_LISTED_ALARMS). The next page starts after the
    /// [`AlarmListing::place`] of the last one. Alarms of classes that this node does not have are included.
    pub fn alarms(
        &self,
        state: AlarmState,
        after: Option<AlarmCursor>,
        limit: usize,
    ) -> Vec<AlarmListing> {
        let namespaces = self.store().namespaces();
        let found = self
            .store()
            .alarms()
            .list(state, after, limit.min(MAX_LISTED_ALARMS));
        let set_back = self.store().alarms().set_back();
        found
            .into_iter()
            .map(|(key, entry)| {
                let known = namespaces.iter().find(|(no, _)| *no == key.namespace);
                let class = known.map_or_else(String::new, |(_, class)| class.clone());
                AlarmListing::new(class, key, entry, set_back)
            })
            .collect()
    }

    /// Reruns the alarms of an object that were given up, or wait for a retry: they fire immediately, as if for the
    /// first time. With a name, only that alarm; the unnamed alarm has the empty name. Returns when this is durable.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the object has no such alarm.
    pub async fn rerun_alarm(&self, object: &AnyStub, name: Option<&str>) -> Result<()> {
        let name = name.map(Arc::from);
        self.ask_of_alarm(object, |replier| Cause::Rerun(replier, name))
            .await
    }

    /// The alarms of an object: the unnamed alarm first, then the named ones sorted by name. Reads the object's
    /// database, and runs none of its code.
    pub async fn alarms_of(&self, object: &AnyStub) -> Result<Vec<AlarmStatus>> {
        let (tell, told) = oneshot::channel();
        self.ask_of_alarm(object, |replier| Cause::Describe(replier, tell))
            .await?;
        told.await.map_err(|_| Error::stopping())
    }

    /// Sends a request about an object's alarm to its worker. Returns when it is done and durable.
    async fn ask_of_alarm(
        &self,
        object: &AnyStub,
        cause: impl FnOnce(Replier) -> Cause,
    ) -> Result<()> {
        let router = &self.0.router;
        if router.phase() != Phase::Running {
            return Err(Error::stopping());
        }
        let id = object.checked_id()?;
        let worker = router.worker_of(&id);
        worker.admit()?;
        let (answer, answered) = oneshot::channel();
        worker.send_alarm_request(AlarmRequest {
            binding: object.binding_index(),
            id,
            cause: cause(Replier::new(answer, worker, EVENT_BYTES)),
        });
        let answer = answered.await.map_err(|_| Error::stopping())?;
        answer.into_inner().map(drop)
    }

    /// Returns whether the log has failed, so that nothing can become durable any more, or a thread of the node has
    /// panicked, so that some objects are no longer served. The process must restart.
    pub fn failed(&self) -> bool {
        *self.0.router.failed.borrow()
    }

    pub(crate) fn router(&self) -> &Router {
        &self.0.router
    }

    /// Returns an error if the node is stopping.
    pub(crate) fn must_run(&self) -> Result<()> {
        self.0.router.must_run()
    }

    /// Completes when the node has [`failed`](Self::failed).
    pub async fn wait_failed(&self) {
        // The sender lives as long as the node.
        let _ = self
            .0
            .router
            .failed
            .subscribe()
            .wait_for(|failed| *failed)
            .await;
    }

    /// Stops the node: rejects new events from outside, lets running handlers finish for `grace`, then resets the
    /// remaining ones and drops every object. Afterwards the store can be closed.
    ///
    /// On a clock that stands still ([`TestClock`](crate::clock::TestClock)) the grace also ends when all that runs
    /// waits for the clock, and after as much of the machine's time.
    ///
    /// An error means that a handler that never awaits still blocks a worker.
    pub async fn shutdown(&self, grace: Duration) -> Result<()> {
        let router = &self.0.router;
        router.enter(Phase::Draining);
        let deadline = router.clock.now() + grace.min(FOR_EVER);
        let mut over = router.clock.sleep_until(deadline);
        let mut stands_still = pin!(self.stands_still(grace));
        // Twice: an event may move to a worker that has already been checked.
        while !(router.is_drained() && router.is_drained()) {
            tokio::select! {
                biased;
                () = router.drain.is_drained.notified() => {}
                () = &mut over => break,
                () = &mut stands_still => break,
            }
        }
        router.enter(Phase::Stopped);
        let mut over = router
            .clock
            .sleep_until(deadline.max(router.clock.now()) + STOP_LIMIT);
        let mut machine_over = pin!(self.machine_time(STOP_LIMIT));
        let threads = std::mem::take(
            &mut *self
                .0
                .threads
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        for worked in threads {
            let name = worked
                .thread
                .thread()
                .name()
                .unwrap_or("a worker")
                .to_owned();
            tokio::select! {
                biased;
                // An error means that it has ended, too.
                _ = worked.ended => {}
                () = async { tokio::select! { () = &mut over => {}, () = &mut machine_over => {} } } => {
                    return Err(Error::with_kind(
                        ErrorKind::Timeout,
                        format!("{name} is blocked by a handler that never awaits; its objects are not closed"),
                    ));
                }
            }
            if worked.thread.join().is_err() {
                tracing::error!(thread = name, "a thread of the node panicked");
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("env", &self.0.env)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.router.enter(Phase::Stopped);
    }
}
