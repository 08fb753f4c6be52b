//! A node: workers, classes and the store that they share.

use std::{
    any::{Any, TypeId},
    collections::HashSet,
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use abide_storage::Store;
use tokio::{
    runtime::{Builder, LocalOptions},
    sync::{mpsc, oneshot},
};

use crate::{
    Class, ClassOptions, Env, Error, ErrorKind, Native, NodeStats, ObjectClass, Result,
    clock::{Clock, SystemClock},
    env::Values,
    envelope::{Drain, Mailbox},
    id::IdKey,
    limits::{FOR_EVER, MAX_WORKERS},
    namespace::Binding,
    random::{Randomness, SystemRandomness},
    router::{Phase, Router},
    watchdog,
    worker::Worker,
};

/// How long a worker may take to drop its objects once handlers have had their grace.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A running node. Clones are the same node; it stops when [`shutdown`](Self::shutdown) is called or the last clone is dropped.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    env: Env,
    router: Arc<Router>,
    threads: Mutex<Vec<Worked>>,
}

/// A thread, and how one learns that it is about to end.
struct Worked {
    thread: JoinHandle<()>,
    ended: oneshot::Receiver<()>,
}

impl Node {
    /// Prepares a node on an open store.
    pub fn builder(store: Store) -> NodeBuilder {
        NodeBuilder {
            store,
            classes: Vec::new(),
            workers: None,
            clock: Arc::new(SystemClock::new()),
            randomness: Arc::new(SystemRandomness),
            values: Values::new(),
        }
    }

    /// The way to the objects.
    pub fn env(&self) -> &Env {
        &self.0.env
    }

    /// The store below.
    pub fn store(&self) -> &Store {
        &self.0.router.store
    }

    /// Figures of this moment.
    pub fn stats(&self) -> NodeStats {
        watchdog::stats(&self.0.router)
    }

    /// Hands the figures of this moment to the program's `metrics` recorder. The node does so every second by itself.
    pub fn publish_metrics(&self) {
        self.stats().publish();
    }

    /// How many workers are blocked by a handler that runs without awaiting.
    pub fn stuck_workers(&self) -> usize {
        self.0.router.workers.iter().filter(|worker| worker.watch.is_stuck()).count()
    }

    /// True once the log has failed: nothing can become durable any more, and the process must restart.
    pub fn failed(&self) -> bool {
        *self.0.router.failed.borrow()
    }

    /// Ends when the log has failed.
    pub async fn wait_failed(&self) {
        // The sender lives as long as the node.
        let _ = self.0.router.failed.subscribe().wait_for(|failed| *failed).await;
    }

    /// Stops the node: takes no more events from outside, lets running handlers finish for `grace`, then
    /// resets what is left and drops every object. After that the store can be closed.
    ///
    /// An error says that a handler which never awaits still holds a worker.
    pub async fn shutdown(&self, grace: Duration) -> Result<()> {
        let router = &self.0.router;
        router.enter(Phase::Draining);
        let deadline = router.clock.now() + grace.min(FOR_EVER);
        let mut over = router.clock.sleep_until(deadline);
        // Twice: an event may move to a worker that has been looked at already.
        while !(router.nothing_owed() && router.nothing_owed()) {
            tokio::select! {
                () = router.drain.nothing_owed.notified() => {}
                () = &mut over => break,
            }
        }
        router.enter(Phase::Stopped);
        let mut over = router.clock.sleep_until(deadline.max(router.clock.now()) + STOP_LIMIT);
        let threads = std::mem::take(&mut *self.0.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for worked in threads {
            let name = worked.thread.thread().name().unwrap_or("a worker").to_owned();
            tokio::select! {
                // An error means that it has ended, too.
                _ = worked.ended => {}
                () = &mut over => {
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
        f.debug_struct("Node").field("env", &self.0.env).field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.router.enter(Phase::Stopped);
    }
}

/// Prepares a [`Node`].
#[must_use = "a node runs only after `start`"]
pub struct NodeBuilder {
    store: Store,
    classes: Vec<Registration>,
    workers: Option<usize>,
    clock: Arc<dyn Clock>,
    randomness: Arc<dyn Randomness>,
    values: Values,
}

struct Registration {
    binding: String,
    class: Arc<dyn Class>,
    native: Option<TypeId>,
    options: ClassOptions,
}

impl NodeBuilder {
    /// Registers a Rust class under a binding.
    pub fn class<T: ObjectClass>(mut self, binding: impl Into<String>, options: ClassOptions) -> Self {
        self.classes.push(Registration {
            binding: binding.into(),
            class: Arc::new(Native::<T>::new()),
            native: Some(TypeId::of::<T>()),
            options,
        });
        self
    }

    /// Registers a class of any kind under a binding.
    pub fn any_class(mut self, binding: impl Into<String>, class: Arc<dyn Class>, options: ClassOptions) -> Self {
        self.classes.push(Registration { binding: binding.into(), class, native: None, options });
        self
    }

    /// How many worker threads to run; one for each processor core if not said.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// The clock for everything timed.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The source of unique ids.
    pub fn randomness(mut self, randomness: Arc<dyn Randomness>) -> Self {
        self.randomness = randomness;
        self
    }

    /// A value that objects find with [`Env::get`], one for each type.
    pub fn with<C: Send + Sync + 'static>(mut self, value: C) -> Self {
        self.values.insert(TypeId::of::<C>(), Arc::new(value) as Arc<dyn Any + Send + Sync>);
        self
    }

    /// Starts the workers.
    pub fn start(self) -> Result<Node> {
        let workers = self.workers.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        if !(1..=MAX_WORKERS).contains(&workers) {
            return Err(refused(format!("a node has 1 to {MAX_WORKERS} workers, not {workers}")));
        }
        let bindings = bind(&self.store, self.classes)?;

        let drain = Arc::new(Drain::default());
        let (mailboxes, channels): (Vec<_>, Vec<_>) = (0..workers)
            .map(|_| {
                let (sender, receiver) = mpsc::unbounded_channel();
                (Arc::new(Mailbox::new(sender, Arc::clone(&drain))), receiver)
            })
            .unzip();
        let router = Router::new(mailboxes.into(), self.store, self.clock, self.randomness, drain);
        let env = Env::new(Arc::clone(&router), Arc::clone(&bindings), self.values);
        let node = Node(Arc::new(Inner { env, router, threads: Mutex::default() }));

        // If a thread cannot be started, dropping the node stops the others.
        let mut threads = Vec::with_capacity(workers + 1);
        for (index, channel) in channels.into_iter().enumerate() {
            let mailbox = Arc::clone(&node.0.router.workers[index]);
            let (store, env, bindings) = (node.store().clone(), node.env().clone(), Arc::clone(&bindings));
            threads.push(spawn(format!("abide-worker-{index}"), move || {
                Worker::new(mailbox, store, env, bindings).run(channel)
            })?);
        }
        let router = Arc::clone(&node.0.router);
        threads.push(spawn("abide-watchdog".to_owned(), move || watchdog::watch(router, bindings))?);
        *node.0.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
        Ok(node)
    }
}

impl fmt::Debug for NodeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeBuilder").field("workers", &self.workers).finish_non_exhaustive()
    }
}

/// Checks the registrations and gives each its number.
fn bind(store: &Store, classes: Vec<Registration>) -> Result<Arc<[Arc<Binding>]>> {
    let mut names = HashSet::new();
    let mut keys = HashSet::new();
    let mut bindings = Vec::with_capacity(classes.len());
    for (index, Registration { binding: name, class, native, options }) in classes.into_iter().enumerate() {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
            return Err(refused(format!("binding `{name}` is no name: use letters, digits, `_` and `-`")));
        }
        if !names.insert(name.clone()) {
            return Err(refused(format!("binding `{name}` is registered twice: each class needs a name of its own")));
        }
        let unique_key = options.unique_key.clone().unwrap_or_else(|| class.name().to_owned());
        if !keys.insert(unique_key.clone()) {
            return Err(refused(format!(
                "binding `{name}` has the same unique key as another (`{unique_key}`), so they would share objects: \
                 give it one in ClassOptions::unique_key"
            )));
        }
        let no = store.namespace(&unique_key)?;
        let options = ClassOptions {
            idle_timeout: options.idle_timeout.min(FOR_EVER),
            event_timeout: options.event_timeout.min(FOR_EVER),
            ..options
        };
        let ids = IdKey::new(&unique_key);
        bindings.push(Arc::new(Binding { index, name, unique_key, no, ids, class, native, options }));
    }
    Ok(bindings.into())
}

fn refused(message: String) -> Error {
    Error::with_kind(ErrorKind::Input, message)
}

/// Runs a future to its end on a thread of its own, with tokio's timers and sockets.
fn spawn<F: Future<Output = ()> + 'static>(name: String, work: impl FnOnce() -> F + Send + 'static) -> Result<Worked> {
    let (end, ended) = oneshot::channel();
    let thread = thread::Builder::new().name(name).spawn(move || {
        match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime.block_on(async move { work().await }),
            Err(error) => tracing::error!(%error, "a thread of the node cannot start its event loop"),
        }
        // Everything of the thread is dropped when this is.
        drop(end);
    })?;
    Ok(Worked { thread, ended })
}
