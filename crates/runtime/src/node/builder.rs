//! Builds a node: classes and their bindings, threads, clock and clients.

use std::{
    any::{Any, TypeId},
    collections::HashSet,
    fmt,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use abide_storage::Store;
use tokio::{
    runtime::{Builder, LocalOptions},
    sync::{mpsc, oneshot},
};

use super::{Inner, Node, WorkerThread};
use crate::{
    Class, ClassOptions, Env, Error, ErrorKind, LocalFuture, Native, ObjectClass, Outbound, Result,
    alarms::{Schedulers, fire_suspects},
    binding::Binding,
    clock::{Clock, SystemClock},
    creator::CreationLimit,
    env::Values,
    envelope::{Drain, Mailbox, Message},
    gate::{Egress, Lane, OutputLease},
    holder,
    id::IdKey,
    limits::{FOR_EVER, MAX_WORKERS},
    object::Object,
    placement::Placement,
    random::{Randomness, SystemRandomness},
    router::{NodeParts, Phase, Router},
    socket::{WebSocketConnector, WebSocketOptions},
    watchdog,
    whereabouts::Whereabouts,
    worker::Worker,
};

/// Prepares a [`Node`].
#[must_use = "a node runs only after `start`"]
pub struct NodeBuilder {
    store: Store,
    classes: Vec<Registration>,
    /// The unique keys of classes to be deleted.
    deleted: Vec<String>,
    /// Opens the WebSockets of objects to other servers.
    connector: Option<Arc<dyn WebSocketConnector>>,
    lease: Option<Arc<dyn OutputLease>>,
    workers: Option<usize>,
    parts: NodeParts,
    values: Values,
}

struct Registration {
    class: Arc<dyn Class>,
    native: Option<TypeId>,
    options: ClassOptions,
}

impl Registration {
    fn unique_key(&self) -> &str {
        let own = self.options.unique_key.as_deref();
        own.unwrap_or_else(|| self.class.name())
    }
}

/// What object classes are registered with: a [`NodeBuilder`] or the builder of a host. The `install` functions of components
/// take either.
pub trait Registrar: Sized {
    /// Registers a class: with the options in a host's `[objects]` settings, or with the default options.
    #[must_use]
    fn object<T: ObjectClass>(self) -> Self;

    /// Registers a class with these options.
    #[must_use]
    fn object_with<T: ObjectClass>(self, options: ClassOptions) -> Self;

    /// Shares a value with objects, which find it with [`Env::get`]: one for each type.
    #[must_use]
    fn with<C: Send + Sync + 'static>(self, value: C) -> Self;
}

impl Registrar for NodeBuilder {
    fn object<T: ObjectClass>(self) -> Self {
        self.class::<T>(ClassOptions::default())
    }

    fn object_with<T: ObjectClass>(self, options: ClassOptions) -> Self {
        self.class::<T>(options)
    }

    fn with<C: Send + Sync + 'static>(self, value: C) -> Self {
        NodeBuilder::with(self, value)
    }
}

impl NodeBuilder {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            classes: Vec::new(),
            deleted: Vec::new(),
            connector: None,
            lease: None,
            workers: None,
            parts: NodeParts {
                clock: Arc::new(SystemClock::new()),
                randomness: Arc::new(SystemRandomness),
                websockets: WebSocketOptions::default(),
                outbound: None,
                creation: None,
                whereabouts: None,
                rehearsal: false,
            },
            values: Values::new(),
        }
    }

    /// Registers a Rust class.
    pub fn class<T: ObjectClass>(mut self, options: ClassOptions) -> Self {
        self.classes.push(Registration {
            class: Arc::new(Native::<T>::new()),
            native: Some(TypeId::of::<T>()),
            options,
        });
        self
    }

    /// Registers a class of any kind.
    pub fn any_class(mut self, class: Arc<dyn Class>, options: ClassOptions) -> Self {
        self.classes.push(Registration {
            class,
            native: None,
            options,
        });
        self
    }

    /// Deletes a class that the program no longer has, with all its objects, their alarms and their files, when the node
    /// starts. This cannot be undone. It is named by its [unique key](ClassOptions::unique_key), by default its name; if
    /// there is none, nothing happens, so this can stay in the program. The archive drops the history of the objects at
    /// the latest when it expires.
    ///
    /// # Errors
    /// The node does not start if the class is also registered.
    pub fn delete_class(mut self, unique_key: impl Into<String>) -> Self {
        self.deleted.push(unique_key.into());
        self
    }

    /// The number of worker threads; by default one for each processor core.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// The clock for everything timed.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.parts.clock = clock;
        self
    }

    /// The source of unique ids.
    pub fn randomness(mut self, randomness: Arc<dyn Randomness>) -> Self {
        self.parts.randomness = randomness;
        self
    }

    /// Options for WebSockets.
    pub fn websockets(mut self, options: WebSocketOptions) -> Self {
        self.parts.websockets = options;
        self
    }

    /// The connector that opens WebSockets for objects. Without it they cannot open any.
    pub fn websocket_connector(mut self, connector: Arc<dyn WebSocketConnector>) -> Self {
        self.connector = Some(connector);
        self
    }

    /// The HTTP client for requests to other servers ([`Env::fetch`]); without one they fail.
    pub fn outbound(mut self, client: Arc<dyn Outbound>) -> Self {
        self.parts.outbound = Some(client);
        self
    }

    /// Limits how many objects each creator may create; without it there is no limit.
    pub fn creation_limit(mut self, limit: Arc<dyn CreationLimit>) -> Self {
        self.parts.creation = Some(limit);
        self
    }

    /// Tells callers where the objects are that this node does not have: for a node that shares its objects with others.
    pub fn whereabouts(mut self, whereabouts: Arc<dyn Whereabouts>) -> Self {
        self.parts.whereabouts = Some(whereabouts);
        self
    }

    /// The lease without which nothing leaves an object: for a node that shares its objects with others. Without one, what is durable
    /// leaves.
    pub fn output_lease(mut self, lease: Arc<dyn OutputLease>) -> Self {
        self.lease = Some(lease);
        self
    }

    /// A node on which objects are made and do nothing themselves: no alarm goes off, background work is dropped before it
    /// begins, and there are no clients for requests and WebSockets. For trying constructors, and the migrations in
    /// them, on a store that is thrown away.
    pub fn rehearsal(mut self) -> Self {
        self.parts.rehearsal = true;
        self
    }

    /// A value that objects find with [`Env::get`], one for each type.
    pub fn with<C: Send + Sync + 'static>(mut self, value: C) -> Self {
        self.values.insert(
            TypeId::of::<C>(),
            Arc::new(value) as Arc<dyn Any + Send + Sync>,
        );
        self
    }

    /// Starts the workers.
    pub fn start(self) -> Result<Node> {
        let (node, tasks) = self.assemble()?;
        // If a thread cannot be started, dropping the node stops the others.
        let mut threads = Vec::with_capacity(tasks.len());
        for task in tasks {
            threads.push(spawn(task)?);
        }
        *node
            .0
            .threads
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = threads;
        Ok(node)
    }

    /// Builds the node without threads: its entire work is these futures, which the caller runs, all on one thread in a
    /// tokio runtime that accepts local tasks, until they end after [`Node::shutdown`] or the drop of the last clone of
    /// the node. With the caller's own clock, randomness and disk, everything that the node does then depends only on
    /// what the caller does: for simulations. Only [restores](Node::restore) read files on their own thread.
    ///
    /// [`Node::shutdown`] does not wait for these futures.
    pub fn build(self) -> Result<(Node, Vec<LocalFuture<()>>)> {
        let (node, tasks) = self.assemble()?;
        let run = |Task { guard, work, .. }| -> LocalFuture<()> {
            Box::pin(async move {
                let _guard = guard;
                work().await;
            })
        };
        Ok((node, tasks.into_iter().map(run).collect()))
    }

    /// The node, and the tasks that it needs.
    fn assemble(mut self) -> Result<(Node, Vec<Task>)> {
        if self.parts.rehearsal {
            self.parts.outbound = None;
            self.connector = None;
        }
        let workers = worker_count(self.workers)?;
        if self.parts.websockets.max_in_flight == 0 {
            return Err(refused(
                "WebSocketOptions has max_in_flight = 0: it must be at least 1".to_owned(),
            ));
        }
        // A rehearsal is about constructors.
        if !self.parts.rehearsal {
            delete(&self.store, &self.classes, &self.deleted)?;
        }
        let classes = self
            .classes
            .iter()
            .map(|of| Arc::clone(&of.class))
            .collect();
        let bindings = bind(&self.store, self.classes)?;
        let placement = Placement::new(workers, &self.store.large_cold_objects());
        let workers = placement.total();

        let drain = Arc::new(Drain::default());
        let egress = Egress::new();
        let lease = self.lease.as_ref();
        let (mailboxes, channels) = mailboxes(workers, &self.store, &drain, &egress, lease);
        let router = Router::new(mailboxes, placement, self.store, self.parts, drain, egress);
        let env = Env::new(
            Arc::clone(&router),
            Arc::clone(&bindings),
            classes,
            self.values,
        );
        let node = Node(Arc::new(Inner {
            env,
            router: Arc::clone(&router),
            threads: Mutex::default(),
            _connector: self.connector.clone(),
        }));

        let task = |name: String, role: Role, work: Work| Task {
            name,
            role,
            guard: Guard(Arc::clone(&router)),
            work,
        };
        let schedulers = Schedulers::new(Arc::clone(&router), Arc::clone(&bindings));
        let mut tasks = Vec::with_capacity(workers + 3);
        for (index, channel) in channels.into_iter().enumerate() {
            let mailbox = Arc::clone(&router.workers[index]);
            let (store, env, bindings) = (
                node.store().clone(),
                node.env().for_objects(),
                Arc::clone(&bindings),
            );
            let alarms = schedulers.clone();
            let connector = self.connector.clone();
            // A panic in the scheduler must not go unnoticed.
            let guard = Guard(Arc::clone(&router));
            let work = move || -> LocalFuture<()> {
                Box::pin(async move {
                    tokio::task::spawn_local(async move {
                        let _guard = guard;
                        alarms.run(index).await;
                    });
                    let router = Arc::clone(env.router());
                    let create = Box::new(move |object: &Rc<Object>| env.instantiate(object));
                    Worker::new(mailbox, store, router, create, bindings, connector)
                        .run(channel)
                        .await;
                })
            };
            tasks.push(task(
                format!("abide-worker-{index}"),
                Role::Worker,
                Box::new(work),
            ));
        }
        let suspects = move || -> LocalFuture<()> { Box::pin(fire_suspects(schedulers)) };
        tasks.push(task(
            "abide-alarms".to_owned(),
            Role::Service,
            Box::new(suspects),
        ));
        let (egress, stopped) = (Arc::clone(&router.egress), router.stopped.subscribe());
        let run = move || -> LocalFuture<()> { Box::pin(egress.run(stopped)) };
        tasks.push(task(
            "abide-egress".to_owned(),
            Role::Service,
            Box::new(run),
        ));
        let watched = Arc::clone(&router);
        let watch = move || -> LocalFuture<()> { Box::pin(watchdog::watch(watched, bindings)) };
        tasks.push(task(
            "abide-watchdog".to_owned(),
            Role::Service,
            Box::new(watch),
        ));
        Ok((node, tasks))
    }
}

/// Creates a future that runs on one thread.
type Work = Box<dyn FnOnce() -> LocalFuture<()> + Send>;

/// A part of a node that runs as long as the node does.
struct Task {
    name: String,
    role: Role,
    guard: Guard,
    work: Work,
}

/// The role of a thread of the node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It runs objects.
    Worker,
    Service,
}

impl fmt::Debug for NodeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeBuilder")
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

/// The mailboxes of this many workers, with what they receive.
fn mailboxes(
    workers: usize,
    store: &Store,
    drain: &Arc<Drain>,
    egress: &Arc<Egress>,
    lease: Option<&Arc<dyn OutputLease>>,
) -> (Box<[Arc<Mailbox>]>, Vec<mpsc::UnboundedReceiver<Message>>) {
    let mailbox = |_| {
        let (sender, receiver) = mpsc::unbounded_channel();
        let lane = Lane::new(Arc::clone(egress), lease.cloned());
        let mailbox = Mailbox::new(sender, Arc::clone(drain), lane, store.memory(), workers);
        (Arc::new(mailbox), receiver)
    };
    let (mailboxes, channels): (Vec<_>, _) = (0..workers).map(mailbox).unzip();
    (mailboxes.into(), channels)
}

fn worker_count(wanted: Option<usize>) -> Result<usize> {
    let workers = wanted.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    if !(1..=MAX_WORKERS).contains(&workers) {
        return Err(refused(format!(
            "a node must have 1 to {MAX_WORKERS} workers, not {workers}"
        )));
    }
    Ok(workers)
}

/// Checks the registrations and assigns their numbers.
fn bind(store: &Store, classes: Vec<Registration>) -> Result<Arc<[Arc<Binding>]>> {
    let mut names = HashSet::new();
    let mut keys = HashSet::new();
    let mut bindings = Vec::with_capacity(classes.len());
    for (index, registration) in classes.into_iter().enumerate() {
        let unique_key = registration.unique_key().to_owned();
        let Registration {
            class,
            native,
            options,
        } = registration;
        let name = options
            .binding
            .clone()
            .unwrap_or_else(|| class.name().to_owned());
        if name.is_empty()
            || !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        {
            return Err(refused(format!(
                "`{name}` is not a valid binding name: use letters, digits, `_` and `-`"
            )));
        }
        // An empty queue is a valid choice; without any running handler nothing would ever be answered.
        if options.max_running == 0 {
            return Err(refused(format!(
                "binding `{name}` has max_running = 0 in its ClassOptions: it must be at least 1"
            )));
        }
        if !(0.0..=1.0).contains(&options.alarm_retry.jitter) {
            return Err(refused(format!(
                "binding `{name}` has an alarm_retry.jitter of {} in its ClassOptions: it must be from 0 to 1",
                options.alarm_retry.jitter
            )));
        }
        if !names.insert(name.clone()) {
            return Err(refused(format!(
                "binding `{name}` is registered twice: set another name in ClassOptions::binding"
            )));
        }
        if !keys.insert(unique_key.clone()) {
            return Err(refused(format!(
                "binding `{name}` has the same unique key as another binding (`{unique_key}`), so they would share objects: \
                 set a different one in ClassOptions::unique_key"
            )));
        }
        let no = store.namespace(&unique_key)?;
        let options = ClassOptions {
            idle_timeout: options.idle_timeout.min(FOR_EVER),
            event_timeout: options.event_timeout.min(FOR_EVER),
            background_timeout: options.background_timeout.min(FOR_EVER),
            ..options
        };
        let ids = IdKey::new(&unique_key);
        bindings.push(Arc::new(Binding {
            index,
            name,
            unique_key,
            no,
            ids,
            class_name: class.name().to_owned(),
            native,
            options,
        }));
    }
    Ok(bindings.into())
}

/// Deletes the classes with these unique keys.
fn delete(store: &Store, classes: &[Registration], deleted: &[String]) -> Result<()> {
    for unique_key in deleted {
        if classes.iter().any(|class| class.unique_key() == unique_key) {
            return Err(refused(format!(
                "the class `{unique_key}` is both registered and to be deleted: remove one of them from the program"
            )));
        }
        if store.delete_namespace(unique_key)? {
            tracing::info!(class = unique_key, "deleted a class and all its objects");
        }
    }
    Ok(())
}

fn refused(message: String) -> Error {
    Error::with_kind(ErrorKind::Input, message)
}

/// Fails the node if dropped before the node stops: a thread that ends early has panicked, or never began.
struct Guard(Arc<Router>);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.0.phase() != Phase::Stopped {
            tracing::error!(
                thread = thread::current().name(),
                "a thread of the node ended unexpectedly, so the node has failed"
            );
            self.0.failed.send_replace(true);
        }
    }
}

/// Runs a future to completion on its own thread, with tokio's timers and sockets.
fn spawn(task: Task) -> Result<WorkerThread> {
    let Task {
        name,
        role,
        guard,
        work,
    } = task;
    let (end, ended) = oneshot::channel();
    let thread = thread::Builder::new().name(name).spawn(move || {
        let _guard = guard;
        let mut builder = Builder::new_current_thread();
        if role == Role::Worker {
            holder::runs_objects();
            // This includes the threads of blocking tasks.
            builder.on_thread_start(holder::runs_objects);
        }
        match builder.enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime.block_on(async move { work().await }),
            Err(error) => {
                tracing::error!(%error, "a thread of the node cannot start its event loop");
            }
        }
        // Dropping this drops everything of the thread.
        drop(end);
    })?;
    Ok(WorkerThread { thread, ended })
}
