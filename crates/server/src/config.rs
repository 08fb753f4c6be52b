//! The settings of a program built on abide, and their sources.
//!
//! Contract: settings come from four sources, each overriding the one before it: the defaults in this file, a TOML file
//! (`--config PATH`, or `./abide.toml` if it exists), environment variables `ABIDE__SECTION__KEY`, and the command
//! line. An unknown key or an invalid value is rejected with a message that names the key, its source and the allowed
//! values; nothing is guessed and nothing is ignored. Every setting is one row of [`settings::SETTINGS`];
//! `docs/configuration.md` documents them. A program can add its own [`section`].

mod load;
mod secret;
pub mod section;
mod settings;
mod value;

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use abide_runtime::socket::{SlowReader, WebSocketOptions};
use abide_storage::{ArchiveOptions, MemoryBudget};

#[cfg(feature = "fuzzing")]
pub(crate) use load::load_text;
pub use load::{ConfigError, Sources};
pub use secret::SecretOption;

use crate::{
    AddressBlock, AllowPrivate, ForwardedHeader,
    access::AccessPolicy,
    client::Proxies,
    limits, machine,
    site::{Hosts, Origins, Site},
};

/// Every setting of a node. Create one with [`Config::default`] and change fields, or call [`Config::load`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// `[server]`: the listener that clients reach.
    pub server: ServerConfig,
    /// `[admin]`: the listener for health checks and metrics.
    pub admin: AdminConfig,
    /// `[data]`: where objects are stored.
    pub data: DataConfig,
    /// `[storage]`: the commit log.
    pub storage: StorageConfig,
    /// `[memory]`: the memory for everything that grows with load.
    pub memory: MemoryConfig,
    /// `[archive]`: how much history is kept.
    pub archive: ArchiveConfig,
    /// `[cluster]`: the other nodes that have a part of the objects.
    pub cluster: ClusterConfig,
    /// `[objects]`: how objects run.
    pub objects: ObjectsConfig,
    /// `[websocket]`: sockets of clients, and those that objects open.
    pub websocket: WebSocketConfig,
    /// `[rpc]`: calls over HTTP and JSON.
    pub rpc: RpcConfig,
    /// `[outbound]`: requests that objects send to other servers.
    pub outbound: OutboundConfig,
    /// `[log]`: the log of the process.
    pub log: LogConfig,
}

/// `[server]`: the listener that clients reach.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Address of the listener. Port 0 takes any free port.
    pub listen: ListenAddress,
    /// Time from a request's head to its response's head; after that the client gets 504.
    pub request_timeout: Duration,
    /// Time within which a client must send a request's head, and for which it may leave a new connection unused.
    pub header_timeout: Duration,
    /// Time for which a connection may be without a request; after that it is closed.
    pub idle_timeout: Duration,
    /// Longest pause while a request's body is being received; after that the client gets 408.
    pub body_timeout: Duration,
    /// Time for which a client may accept no data that is sent to it; after that its connection is closed.
    pub write_timeout: Duration,
    /// Longest request body; a longer one gets 413.
    pub max_body_bytes: u64,
    /// The host names with a dot that clients may use; others are rejected with 403 `unknown_host`, on every listener.
    pub hosts: Hosts,
    /// The origins whose web pages may send requests here, besides the server's own; others get 403 `cross_origin`, on
    /// every listener.
    pub origins: Origins,
    /// The program checks the hosts and origins of its own listener, as a reverse proxy must: what its origin allows is for
    /// the origin to say. The admin listener is checked nevertheless.
    pub program_checks_site: bool,
    /// Who may call the API that a program protects, see [`access`](crate::access). [`AccessPolicy::Auto`]: anyone if
    /// only this machine can reach the listener, that is, if it is on a loopback address and both `hosts` and
    /// `trusted_proxies` are empty.
    pub access: AccessPolicy,
    /// Connections served at once; more wait in the listener's backlog.
    pub max_connections: usize,
    /// Connections that one client address may have; behind a trusted proxy, requests and WebSockets at once.
    pub max_connections_per_client: ConnectionsPerClient,
    /// Requests per second that one client address may send; `None` (`"off"`) for no limit.
    pub requests_per_client: Option<usize>,
    /// Requests per second with one token to protected routes; `None` (`"off"`) for no limit.
    pub requests_per_token: Option<usize>,
    /// New objects per minute that the requests of one client address may create; `None` (`"off"`) for no limit.
    pub new_objects_per_client: Option<usize>,
    /// The same limit for the requests with one token.
    pub new_objects_per_token: Option<usize>,
    /// The proxies that are trusted to name their clients.
    pub trusted_proxies: Vec<AddressBlock>,
    /// The header in which they name them.
    pub forwarded_header: ForwardedHeader,
    /// Whether connections of trusted proxies begin with a header of the PROXY protocol, version 1 or 2.
    pub proxy_protocol: bool,
    /// The certificate presented to clients; without one the listener speaks plain HTTP.
    pub tls: TlsConfig,
    /// Time for requests in flight to finish when the process is told to stop.
    pub shutdown_grace: Duration,
}

/// PEM files for TLS. The certificate and the key must be set together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsConfig {
    /// The certificate, followed by any intermediate certificates.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// The authorities that sign clients' certificates: if set, clients must present one.
    pub client_ca: Option<PathBuf>,
}

impl TlsConfig {
    /// The scheme of the listener's URL.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.certificate.is_some() {
            "https"
        } else {
            "http"
        }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: ListenAddress("127.0.0.1:8080".to_owned()),
            request_timeout: Duration::from_secs(30),
            header_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_mins(1),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_mins(1),
            max_body_bytes: 16 << 20,
            hosts: Hosts::default(),
            origins: Origins::default(),
            program_checks_site: false,
            access: AccessPolicy::Auto,
            max_connections: 10_000,
            max_connections_per_client: ConnectionsPerClient::Auto,
            requests_per_client: None,
            requests_per_token: None,
            new_objects_per_client: None,
            new_objects_per_token: None,
            trusted_proxies: Vec::new(),
            forwarded_header: ForwardedHeader::default(),
            proxy_protocol: false,
            tls: TlsConfig::default(),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

impl ServerConfig {
    /// The hosts and origins that the program's listener accepts.
    pub(crate) fn program_site(&self) -> Site {
        if self.program_checks_site {
            return Site {
                hosts: Hosts::Any,
                origins: Origins::Any,
            };
        }
        self.site()
    }

    /// The hosts and origins that the settings allow.
    pub(crate) fn site(&self) -> Site {
        Site {
            hosts: self.hosts.clone(),
            origins: self.origins.clone(),
        }
    }

    /// Whether anyone who reaches a listener at this address may call.
    pub(crate) fn is_open(&self, address: SocketAddr) -> bool {
        match self.access {
            AccessPolicy::Open => true,
            AccessPolicy::Token => false,
            AccessPolicy::Auto => {
                address.ip().is_loopback()
                    && self.hosts == Hosts::default()
                    && self.trusted_proxies.is_empty()
            }
        }
    }

    /// The proxies that are trusted to name clients.
    pub(crate) fn proxies(&self) -> Proxies {
        Proxies::new(self.trusted_proxies.clone(), self.forwarded_header)
    }
}

/// The limit of connections per client address. Those of trusted proxies are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionsPerClient {
    /// A tenth of `server.max_connections`; connections from this machine are not counted.
    #[default]
    Auto,
    /// This many, also from this machine.
    AtMost(usize),
    /// No limit.
    Unlimited,
}

/// `[admin]`: the listener for health checks and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdminConfig {
    /// Address of the admin listener; `None` (`"off"`) disables it.
    pub listen: Option<ListenAddress>,
    /// Who may use more than the health checks, and metrics on a loopback address. [`AccessPolicy::Auto`]: holders of a
    /// token.
    pub access: AccessPolicy,
    /// Whether connections of trusted proxies (`server.trusted_proxies`) begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// The certificate presented to its clients; without one it speaks plain HTTP.
    pub tls: TlsConfig,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            listen: Some(ListenAddress("127.0.0.1:8081".to_owned())),
            access: AccessPolicy::Auto,
            proxy_protocol: false,
            tls: TlsConfig::default(),
        }
    }
}

/// `[data]`: where objects are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataConfig {
    /// The data directory; created if it does not exist. Only one process can use it at a time.
    pub dir: PathBuf,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("data"),
        }
    }
}

/// `[storage]`: the commit log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StorageConfig {
    /// Size of a log segment; fixed when the data directory is created.
    pub segment_bytes: u64,
    /// Amount of log since the last checkpoint that triggers the next one; bounds the time of a restart.
    pub checkpoint_bytes: u64,
    /// Time since the last checkpoint that triggers the next one, if anything was written.
    pub checkpoint_interval: Duration,
    /// SQLite's page cache for each object in memory.
    pub cache_bytes: u64,
    /// The size limit of one object's database.
    pub max_object_bytes: u64,
    /// The size limit of all objects' databases together; `None` (`"off"`) for no limit.
    pub max_bytes: Option<u64>,
    /// Parameters bound to one SQL statement.
    pub max_parameters: usize,
    /// Columns of a table, and of a result.
    pub max_columns: usize,
    /// Bytes of a value, string, blob or row.
    pub max_value_bytes: u64,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            checkpoint_bytes: 256 << 20,
            checkpoint_interval: Duration::from_mins(1),
            cache_bytes: 2 << 20,
            max_object_bytes: abide_storage::limits::MAX_OBJECT_BYTES,
            max_bytes: None,
            max_parameters: abide_storage::limits::MAX_BOUND_PARAMETERS,
            max_columns: abide_storage::limits::MAX_COLUMNS,
            max_value_bytes: abide_storage::limits::MAX_VALUE_BYTES as u64,
        }
    }
}

/// `[memory]`: the memory for everything that grows with load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryConfig {
    /// The memory budget in bytes for objects in memory and requests in progress; beyond it new work is rejected as
    /// overload. `None` (`"auto"`) uses half of the memory of the machine or the container.
    pub budget: Option<u64>,
}

impl MemoryConfig {
    /// The budget in bytes, detected if necessary.
    pub(crate) fn counted(&self) -> MemoryBudget {
        let budget = self.budget.unwrap_or_else(|| {
            let memory = machine::memory().unwrap_or(limits::ASSUMED_MEMORY);
            (memory / limits::MEMORY_SHARE).max(*limits::MEMORY_BUDGET.start())
        });
        let base = limits::UNCOUNTED_BASE.min(budget / limits::UNCOUNTED_BASE_SHARE);
        MemoryBudget::new(budget - budget / limits::UNCOUNTED_SHARE - base)
    }
}

/// `[archive]`: the history that is kept, so that objects can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveConfig {
    /// Keep history.
    pub enabled: bool,
    /// Every commit within this time can be restored.
    pub retention: Duration,
    /// The size limit of the archive in bytes.
    pub max_bytes: u64,
    /// Bytes of files that are written in the background in each second after a lazy restore: of objects, and then of the archive;
    /// `None` (`"off"`) for as fast as it goes.
    pub hydration_rate: Option<u64>,
    /// Bytes of history that the disk keeps of what is copied to `url`; `None` (`"off"`) for all of it.
    pub local_bytes: Option<u64>,
    /// The URL of the object store or directory to which the archive is copied; `None` (`"off"`) for no copy. It needs the
    /// feature `history` of `abide`.
    pub url: Option<String>,
    /// How that store is reached.
    pub options: StoreAccess,
    /// The file with the key with which everything there is encrypted: 32 random bytes as 64 hex digits. `None` (`"off"`) for no
    /// encryption.
    pub key_file: Option<PathBuf>,
    /// The shortest time between two copies of the archive's files.
    pub upload_interval: Duration,
    /// How often the end of the log is shipped there, if it has grown; `None` (`"off"`) for never.
    pub ship_interval: Option<Duration>,
    /// Acknowledge nothing before it is there.
    pub sync: bool,
    /// How long the store keeps what the newest copy no longer needs.
    pub keep_uploads: Duration,
    /// How often a thirtieth of the objects is compared with the copy there, so that each is within 30 times this; `None` (`"off"`)
    /// for never.
    pub prove: Option<Duration>,
    /// Takes the history at the URL over if it belongs to another data directory, whose node then stops. No setting: an
    /// operator decides for one start.
    pub take_over: bool,
}

/// How an object store is reached: options by the names that `object_store` gives them, such as `region` and `endpoint`. One
/// whose name ends with `_file` is the path of a file with the value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StoreAccess(pub Vec<(String, String)>);

impl fmt::Debug for StoreAccess {
    /// Without the values, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl Default for ArchiveConfig {
    fn default() -> Self {
        let defaults = ArchiveOptions::default();
        Self {
            enabled: defaults.enabled,
            retention: defaults.retention,
            max_bytes: defaults.max_bytes,
            hydration_rate: defaults.hydration_rate,
            local_bytes: defaults.local_bytes,
            url: None,
            options: StoreAccess::default(),
            key_file: None,
            upload_interval: Duration::from_secs(10),
            ship_interval: Some(Duration::from_secs(1)),
            sync: false,
            keep_uploads: Duration::from_hours(24),
            prove: Some(Duration::from_hours(24)),
            take_over: false,
        }
    }
}

/// `[cluster]`: the other nodes that have a part of the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterConfig {
    /// The address of the PostgreSQL database with the tables of the cluster; `None` (`"off"`): this node has all objects.
    pub postgres: Option<ClusterAddress>,
    /// What a commit in the database has to survive.
    pub replication: Replication,
    /// The URL at which clients reach this node's listener; `None` (`"auto"`): the address of the listener.
    pub advertise: Option<String>,
}

/// The address of a database, which may contain a password. `{:?}` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterAddress(pub(crate) String);

impl ClusterAddress {
    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClusterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAddress").finish_non_exhaustive()
    }
}

/// What a commit in the database of a cluster has to survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replication {
    /// The loss of the server's machine: the server must wait for a synchronous standby.
    #[default]
    Standby,
    /// A crash of the server. Its storage is replicated by other means, or its loss is accepted.
    None,
}

/// `[objects]`: how objects run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectsConfig {
    /// Worker threads; `None` (`"auto"`) for one per core.
    pub workers: Option<usize>,
    /// An object that has been idle for this long is evicted from memory.
    pub idle_timeout: Duration,
    /// A handler that has not ended after this time is aborted, and its object is reset.
    pub event_timeout: Duration,
    /// Background work (`spawn`) that has not ended after this time is dropped.
    pub background_timeout: Duration,
    /// Events that may wait for one object; more are rejected as overload.
    pub max_queued: usize,
}

impl Default for ObjectsConfig {
    fn default() -> Self {
        Self {
            workers: None,
            idle_timeout: Duration::from_secs(10),
            event_timeout: Duration::from_mins(5),
            background_timeout: Duration::from_mins(15),
            max_queued: 1_024,
        }
    }
}

/// `[websocket]`: sockets of clients, and those that objects open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebSocketConfig {
    /// Longest message in either direction; a longer one closes the socket with 1009.
    pub max_message_bytes: u64,
    /// Time within which a message that has begun must arrive completely; after that its socket is closed with 1008.
    pub message_timeout: Duration,
    /// The size of the send buffer for one reader.
    pub send_buffer_bytes: u64,
    /// What happens when the send buffer overflows.
    pub slow_reader: SlowReader,
    /// Messages of one socket that its object has not finished handling; at this limit no more is read from it.
    pub max_in_flight: usize,
    /// How long a message may wait for an overloaded object; after that the socket is closed with 1013.
    pub delivery_patience: Duration,
    /// A peer that has been silent for this long gets a ping; `None` (`"off"`) disables pings.
    pub ping_interval: Option<Duration>,
    /// A peer that stays silent for this long after a ping is disconnected.
    pub pong_timeout: Duration,
}

impl Default for WebSocketConfig {
    fn default() -> Self {
        let defaults = WebSocketOptions::default();
        Self {
            max_message_bytes: defaults.max_message_bytes as u64,
            message_timeout: Duration::from_mins(2),
            send_buffer_bytes: defaults.send_buffer_bytes as u64,
            slow_reader: defaults.slow_reader,
            max_in_flight: defaults.max_in_flight,
            delivery_patience: defaults.delivery_patience,
            ping_interval: Some(Duration::from_secs(30)),
            pong_timeout: Duration::from_secs(20),
        }
    }
}

/// `[rpc]`: calls over HTTP and JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RpcConfig {
    /// Whether clients may call objects' methods at `/rpc/{class}/{name}/{method}`.
    pub enabled: bool,
}

/// `[outbound]`: requests that objects send to other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboundConfig {
    /// Whether objects may reach addresses outside the public internet: this machine, private networks, the metadata
    /// service of a cloud.
    pub allow_private: AllowPrivate,
    /// Time limit for establishing a connection.
    pub connect_timeout: Duration,
    /// Time limit from the start of a request to its response's head, and for waiting until it may start.
    pub request_timeout: Duration,
    /// Longest pause between two pieces of a response's body.
    pub read_timeout: Duration,
    /// Concurrent requests; each counts until its response's body has been read.
    pub max_in_flight: usize,
    /// Requests that may wait to start; more are rejected as overload.
    pub max_queued: usize,
    /// Redirects that are followed; 0 returns them to the object.
    pub max_redirects: usize,
}

impl Default for OutboundConfig {
    fn default() -> Self {
        Self {
            allow_private: AllowPrivate::None,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            read_timeout: Duration::from_secs(30),
            max_in_flight: 256,
            max_queued: 1_024,
            max_redirects: 10,
        }
    }
}

/// `[log]`: the log of the process, on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogConfig {
    /// A level (`warn`) or directives per module (`warn,abide_runtime=debug`).
    pub level: String,
    /// The format of a line.
    pub format: LogFormat,
    /// Whether to log each response of a listener.
    pub access: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            level: "warn".to_owned(),
            format: LogFormat::Text,
            access: false,
        }
    }
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line, for collectors.
    Json,
}

/// An address to listen on: `IP:PORT` or `NAME:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress(String);

impl ListenAddress {
    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A free port of the loopback interface, for tests.
    pub fn any_port() -> Self {
        Self("127.0.0.1:0".to_owned())
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address.to_string())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
