//! The builder of a host: its objects, router and settings.
//!
//! Contract: a builder only collects configuration; nothing is opened before [`HostBuilder::serve`],
//! [`HostBuilder::start`] or [`HostBuilder::start_local`].

use std::{fmt, path::PathBuf, sync::Arc};

use abide_runtime::{
    ClassOptions, Env, Error, NodeBuilder, ObjectClass, Outbound, Registrar, clock::Clock,
    socket::WebSocketOptions,
};
use abide_storage::{Disk, RealDisk, SimDisk};
use axum::Router;
use futures_util::future::BoxFuture;
use http::request::Parts;
use tokio::runtime::Handle;

use crate::{
    ApiError, Config, FrontPage, HostError, LocalHost, RunningHost, Sources,
    access::{Access, AccessError, AccessStore, Authorize, Caller, Need},
    client::NewObjects,
    json_rpc::{AuditedCall, AuditedCalls},
    outbound::{HttpClient, policy::AddressPolicy},
    running,
    websocket::{Connector, Hub},
};

type Registration = Box<dyn FnOnce(NodeBuilder, &ClassOptions) -> NodeBuilder + Send>;
type MakeRouter = Box<dyn FnOnce(Env) -> Router + Send>;
pub(crate) type StartHook = Box<dyn FnOnce(Env) -> BoxFuture<'static, Result<(), Error>> + Send>;

/// A process with durable objects, listeners and settings. Its functions create a [`HostBuilder`].
#[derive(Debug)]
pub struct Host(());

impl Host {
    /// A host with the settings of `./abide.toml`, if it exists, and of the environment (`ABIDE__SECTION__KEY`): see
    /// `docs/configuration.md`. A program with a command line uses `ServeArgs` and [`Host::from_config`].
    ///
    /// `Err` if a setting is unknown, or its value is invalid.
    pub fn from_settings() -> Result<HostBuilder, HostError> {
        Ok(Self::from_config(Config::load(&Sources::default())?))
    }

    /// A host whose objects are stored in `data_dir`, with default settings: no file and no variable changes them. Use
    /// [`Host::from_settings`] for a program that operators configure.
    pub fn builder(data_dir: impl Into<PathBuf>) -> HostBuilder {
        let mut config = Config::default();
        config.data.dir = data_dir.into();
        Self::from_config(config)
    }

    /// A host with these settings; [`Config::load`] loads them from `abide.toml`, the environment and options.
    pub fn from_config(config: Config) -> HostBuilder {
        HostBuilder::new(config, Arc::new(RealDisk))
    }

    /// A host whose objects are in memory and end with it, for tests. Its listeners use free ports.
    pub fn open_in_memory() -> HostBuilder {
        let mut config = Config::default();
        config.server.listen = crate::ListenAddress::any_port();
        config.admin.listen = Some(crate::ListenAddress::any_port());
        HostBuilder::new(config, Arc::new(RealDisk)).disk(Arc::new(SimDisk::new()))
    }
}

/// The configuration of a host. Created by [`Host::builder`], [`Host::from_config`] or [`Host::open_in_memory`].
#[must_use = "a builder does nothing before `serve`, `start` or `start_local`"]
pub struct HostBuilder {
    pub(crate) config: Config,
    pub(crate) disk: Arc<dyn Disk>,
    /// Not the machine's.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Whether files outside the store, such as `access.db`, are kept in the data directory.
    pub(crate) has_directory: bool,
    authorize: Option<Box<Authorize>>,
    pub(crate) audited_calls: AuditedCalls,
    registrations: Vec<Registration>,
    router: Option<MakeRouter>,
    pub(crate) start_hooks: Vec<StartHook>,
    pub(crate) front: Option<FrontPage>,
}

impl HostBuilder {
    fn new(config: Config, disk: Arc<dyn Disk>) -> Self {
        Self {
            config,
            disk,
            clock: None,
            has_directory: true,
            authorize: None,
            audited_calls: AuditedCalls::new(),
            registrations: Vec::new(),
            router: None,
            start_hooks: Vec::new(),
            front: None,
        }
    }

    /// Registers a class, with the options in the `[objects]` settings. Callers find it by its name.
    pub fn object<T: ObjectClass>(self) -> Self {
        self.register(|node, defaults| node.class::<T>(defaults.clone()))
    }

    /// Registers a class with its own options, such as another [binding](ClassOptions::binding); the `[objects]` settings do not
    /// apply to it.
    pub fn object_with<T: ObjectClass>(self, options: ClassOptions) -> Self {
        self.register(move |node, _| node.class::<T>(options))
    }

    /// Shares a value with objects and handlers: `env.get::<C>()`.
    pub fn with<C: Send + Sync + 'static>(self, value: C) -> Self {
        self.register(move |node, _| node.with(value))
    }

    /// Sets the clock of the objects. The host also dates their commits by it, so that an object can be restored to one of
    /// its times. Requests' time limits still use the machine's clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(Arc::clone(&clock));
        self.register(move |node, _| node.clock(clock))
    }

    /// Sends objects' requests through this client instead of the host's own; the `[outbound]` settings do not apply to
    /// it.
    pub fn outbound(self, client: Arc<dyn Outbound>) -> Self {
        self.register(move |node, _| node.outbound(client))
    }

    /// Sets the disk for the store's files; tests pass a [`SimDisk`] that they can fill or break. Tokens and the audit
    /// log are then kept in memory.
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self.has_directory = false;
        self
    }

    /// Replaces tokens by the program's own check of who calls a protected route and what they may do, based on the
    /// head of the request or on extensions set by a `tower` layer.
    pub fn authorize(
        mut self,
        check: impl Fn(&Parts, &Need) -> Result<Caller, ApiError> + Send + Sync + 'static,
    ) -> Self {
        self.authorize = Some(Box::new(check));
        self
    }

    /// Deletes a class that the program no longer has, with all its objects, at the start. This cannot be undone: see
    /// [`NodeBuilder::delete_class`].
    pub fn delete_class(self, unique_key: impl Into<String>) -> Self {
        let unique_key = unique_key.into();
        self.register(move |node, _| node.delete_class(unique_key))
    }

    /// Sets the axum router that answers HTTP requests; it is created with the host's [`Env`].
    pub fn router(mut self, make: impl FnOnce(Env) -> Router + Send + 'static) -> Self {
        self.router = Some(Box::new(make));
        self
    }

    /// Runs at each start, before requests of clients are accepted. The admin listener already answers, and alarms that
    /// are due may already go off. Hooks run in the order in which they were added. If one fails, the host does not start.
    ///
    /// ```
    /// # use abide::{Host, prelude::*};
    /// # #[durable_object]
    /// # struct Shop { ctx: Ctx }
    /// # impl DurableObject for Shop { fn new(ctx: Ctx, _: Env) -> Result<Self> { Ok(Self { ctx }) } }
    /// # #[rpc]
    /// # impl Shop { pub fn load(&self) -> Result<()> { Ok(()) } }
    /// let host = Host::open_in_memory()
    ///     .object::<Shop>()
    ///     .on_start(async |env| env.object::<Shop>().get_by_name("main").load().await);
    /// # fn main() {}
    /// ```
    pub fn on_start<F>(mut self, hook: impl FnOnce(Env) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.start_hooks
            .push(Box::new(move |env| Box::pin(hook(env))));
        self
    }

    /// Has an object of a registered class with this name exist from the first start on, without being called first:
    /// what its constructor does, such as setting a timer, is stored. This is a hook like those of
    /// [`on_start`](Self::on_start), in the same order, so each start runs the constructor.
    ///
    /// # Panics
    /// The start panics if the class is not registered exactly once; see [`Env::object`].
    pub fn singleton<T: ObjectClass>(self, name: &str) -> Self {
        let name = name.to_owned();
        self.on_start(move |env| async move {
            let object = env.object::<T>().get_by_name(&name);
            object.untyped().create().await
        })
    }

    /// Shows this page at `/`, whatever the router has there: an overview of the node, with the program's own links and
    /// commands to try. A browser gets HTML, others JSON. If the listener requires a token (`server.access`), so does
    /// the page; others only learn that this is an abide node.
    pub fn front_page(mut self, page: FrontPage) -> Self {
        self.front = Some(page);
        self
    }

    /// Accepts calls over HTTP and JSON at `/rpc/{class}/{name}/{method}`, like the setting `rpc.enabled`. Anyone who
    /// may call the listener (`server.access`) may then call every method.
    pub fn json_rpc(self) -> Self {
        self.configure(|config| config.rpc.enabled = true)
    }

    /// Records `/rpc` calls of these methods of a class's objects in the audit log.
    pub fn audit_calls<T: ObjectClass>(mut self, calls: &[AuditedCall]) -> Self {
        let of_class = self.audited_calls.entry(T::NAME.to_owned()).or_default();
        of_class.extend(calls);
        self
    }

    /// Changes settings.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Serves until SIGTERM or SIGINT, then shuts down cleanly. Sets up logs and prints the address.
    ///
    /// Whatever the process writes from then on is for its own user only: the umask becomes 077.
    ///
    /// `Err` if the host cannot start, or if the commit log fails: the process must then end and be restarted, which
    /// recovers everything that was acknowledged.
    pub async fn serve(self) -> Result<(), HostError> {
        running::serve(self).await
    }

    /// Starts the objects and the listeners and returns the running host, for tests and programs that control its
    /// lifetime.
    pub async fn start(self) -> Result<RunningHost, HostError> {
        Box::pin(RunningHost::start(self)).await
    }

    /// Starts the objects without listeners.
    pub async fn start_local(self) -> Result<LocalHost, HostError> {
        Box::pin(LocalHost::start(self)).await
    }

    fn register(
        mut self,
        add: impl FnOnce(NodeBuilder, &ClassOptions) -> NodeBuilder + Send + 'static,
    ) -> Self {
        self.registrations.push(Box::new(add));
        self
    }

    /// The access control of a listener, shared with objects and handlers. If it is `open`, anyone may call it.
    pub(crate) fn share_access(mut self, open: bool) -> Result<(Self, Access), AccessError> {
        let store = if self.has_directory {
            AccessStore::open(&self.config.data.dir)?
        } else {
            AccessStore::open_in_memory()?
        };
        let server = &self.config.server;
        let (rate, patience) = (server.requests_per_token, server.body_timeout);
        let access = Access::new(store, self.authorize.take(), open, rate, patience);
        Ok((self.with(access.clone()), access))
    }

    /// Configures a node's builder, and returns the constructor of the router. Called inside the program's async runtime.
    pub(crate) fn configure_node(
        self,
        mut node: NodeBuilder,
        sockets: &Hub,
    ) -> (NodeBuilder, MakeRouter) {
        let objects = &self.config.objects;
        let defaults = ClassOptions::default()
            .idle_timeout(objects.idle_timeout)
            .event_timeout(objects.event_timeout)
            .background_timeout(objects.background_timeout)
            .max_queued(objects.max_queued);
        let websocket = &self.config.websocket;
        node = node.websockets(
            WebSocketOptions::default()
                .max_message_bytes(
                    usize::try_from(websocket.max_message_bytes).unwrap_or(usize::MAX),
                )
                .send_buffer_bytes(
                    usize::try_from(websocket.send_buffer_bytes).unwrap_or(usize::MAX),
                )
                .slow_reader(websocket.slow_reader)
                .max_in_flight(websocket.max_in_flight)
                .delivery_patience(websocket.delivery_patience),
        );
        let policy = AddressPolicy::new(self.config.outbound.allow_private.clone());
        let connector = Connector::new(sockets.clone(), policy, Handle::current());
        node = node.websocket_connector(Arc::new(connector));
        let client = HttpClient::new(&self.config.outbound, Handle::current());
        node = node.outbound(Arc::new(client));
        if let Some(limit) = NewObjects::new(&self.config.server) {
            node = node.creation_limit(Arc::new(limit));
        }
        if let Some(workers) = objects.workers {
            node = node.workers(workers);
        }
        for add in self.registrations {
            node = add(node, &defaults);
        }
        (
            node,
            self.router.unwrap_or_else(|| Box::new(|_| Router::new())),
        )
    }
}

impl Registrar for HostBuilder {
    fn object<T: ObjectClass>(self) -> Self {
        HostBuilder::object::<T>(self)
    }

    fn object_with<T: ObjectClass>(self, options: ClassOptions) -> Self {
        HostBuilder::object_with::<T>(self, options)
    }

    fn with<C: Send + Sync + 'static>(self, value: C) -> Self {
        HostBuilder::with(self, value)
    }
}

impl fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBuilder")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
