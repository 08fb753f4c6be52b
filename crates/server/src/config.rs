//! The settings of a program built on abide, and how they are found.
//!
//! Contract: settings come from four places, each over the one before it: the defaults in this file, a TOML file
//! (`--config PATH`, or `./abide.toml` if there is one), environment variables `ABIDE__SECTION__KEY`, and the command
//! line. A key that names no setting, or a value that a setting cannot take, is refused with a message that names the
//! key, the place it came from and what is allowed; nothing is guessed and nothing is ignored. Every setting is one
//! row of [`settings::SETTINGS`]; `docs/configuration.md` lists them for people. A
//! program can add a [`section`] of its own.

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

/// Every setting of a node. Make one with [`Config::default`], then change fields; or [`Config::load`] it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// `[server]`: the listener that clients reach.
    pub server: ServerConfig,
    /// `[admin]`: the listener for health checks and metrics.
    pub admin: AdminConfig,
    /// `[data]`: where objects live.
    pub data: DataConfig,
    /// `[storage]`: the commit log.
    pub storage: StorageConfig,
    /// `[memory]`: the memory for everything that grows with load.
    pub memory: MemoryConfig,
    /// `[archive]`: what is kept of the past.
    pub archive: ArchiveConfig,
    /// `[objects]`: how objects run.
    pub objects: ObjectsConfig,
    /// `[websocket]`: sockets of clients, and those that objects open.
    pub websocket: WebSocketConfig,
    /// `[rpc]`: calls over HTTP and JSON.
    pub rpc: RpcConfig,
    /// `[outbound]`: requests that objects send to the world outside.
    pub outbound: OutboundConfig,
    /// `[log]`: what the process tells about itself.
    pub log: LogConfig,
}

/// `[server]`: the listener that clients reach.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Address of the listener. Port 0 takes any free port.
    pub listen: ListenAddress,
    /// Time from a request's head to its response's head; then the client gets 504.
    pub request_timeout: Duration,
    /// Time a client may take to send a request's head, and to leave a connection unused.
    pub header_timeout: Duration,
    /// Time for which a connection may have no request on it; then it is closed.
    pub idle_timeout: Duration,
    /// Time for which nothing of a request's body may arrive while it is waited for; then the client gets 408.
    pub body_timeout: Duration,
    /// Time for which a client may take nothing of what is sent to it; then it is given up.
    pub write_timeout: Duration,
    /// Longest request body; a longer one gets 413.
    pub max_body_bytes: u64,
    /// The names with a dot under which clients ask; others are refused with 403 `unknown_host`, on every listener.
    pub hosts: Hosts,
    /// The origins whose web pages may send requests here, beside the server's own; others get 403 `cross_origin`, on every
    /// listener.
    pub origins: Origins,
    /// Who may call the API that a program protects, see [`access`](crate::access). [`AccessPolicy::Auto`]: everybody if only
    /// this machine can reach the listener, that is, if it is on a loopback address and neither `hosts` nor
    /// `trusted_proxies` names anything.
    pub access: AccessPolicy,
    /// Connections served at once; more wait in the listener's backlog.
    pub max_connections: usize,
    /// Connections that one client address may have; behind a trusted proxy, requests and WebSockets at once.
    pub max_connections_per_client: ConnectionsPerClient,
    /// Requests that one client address may send in a second; `None` (`"off"`): any number.
    pub requests_per_client: Option<usize>,
    /// Requests with one token in a second to what a program protects; `None` (`"off"`): any number.
    pub requests_per_token: Option<usize>,
    /// New objects that the requests of one client address may make in a minute; `None` (`"off"`): any number.
    pub new_objects_per_client: Option<usize>,
    /// The same of the requests with one token.
    pub new_objects_per_token: Option<usize>,
    /// The proxies that are believed when they say for whom they ask.
    pub trusted_proxies: Vec<AddressBlock>,
    /// The header in which they say it.
    pub forwarded_header: ForwardedHeader,
    /// Whether connections of trusted proxies begin with a header of the PROXY protocol, version 1 or 2.
    pub proxy_protocol: bool,
    /// The certificate that clients see; without one the listener speaks plain HTTP.
    pub tls: TlsConfig,
    /// Time that requests in flight get to finish when the process is told to stop.
    pub shutdown_grace: Duration,
}

/// PEM files for TLS. The certificate and the key are both named, or neither is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsConfig {
    /// The certificate, followed by those of the authorities between it and a root.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// The authorities that sign clients' certificates: then only clients with one are served.
    pub client_ca: Option<PathBuf>,
}

impl TlsConfig {
    /// Of the listener's URL.
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
    /// Whom the listeners answer.
    pub(crate) fn site(&self) -> Site {
        Site {
            hosts: self.hosts.clone(),
            origins: self.origins.clone(),
        }
    }

    /// Whether everybody who reaches a listener at this address may call.
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

    /// Who is believed about clients.
    pub(crate) fn proxies(&self) -> Proxies {
        Proxies::new(self.trusted_proxies.clone(), self.forwarded_header)
    }
}

/// How many connections one client address may have. Those of trusted proxies are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionsPerClient {
    /// A tenth of `server.max_connections`; this machine's own are not counted.
    #[default]
    Auto,
    /// So many, also from this machine.
    AtMost(usize),
    /// As many as it likes.
    Unlimited,
}

/// `[admin]`: the listener for health checks and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdminConfig {
    /// Address of the admin listener; `None` (`"off"`) leaves it out.
    pub listen: Option<ListenAddress>,
    /// Who may do more there than ask for health, and for metrics on a loopback address. [`AccessPolicy::Auto`]: whoever has
    /// a token.
    pub access: AccessPolicy,
    /// Whether connections of trusted proxies (`server.trusted_proxies`) begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// The certificate that its clients see; without one it speaks plain HTTP.
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

/// `[data]`: where objects live.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataConfig {
    /// The data directory; made if it does not exist. One process at a time.
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
    /// Size of one log segment; fixed when the data directory is made.
    pub segment_bytes: u64,
    /// Log written since the last checkpoint that starts the next one; bounds the time a restart takes.
    pub checkpoint_bytes: u64,
    /// Time since the last checkpoint that starts the next one, if anything was written.
    pub checkpoint_interval: Duration,
    /// SQLite's page cache for each object in memory.
    pub cache_bytes: u64,
    /// The most that one object's database may have.
    pub max_object_bytes: u64,
    /// The most that the databases of all objects may have together; `None` (`"off"`): any number.
    pub max_bytes: Option<u64>,
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
        }
    }
}

/// `[memory]`: the memory for everything that grows with load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryConfig {
    /// Bytes for objects in memory and everything that is on its way; beyond it new work is refused as overload. `None`
    /// (`"auto"`) takes half of what the machine has or the container may use.
    pub budget: Option<u64>,
}

impl MemoryConfig {
    /// The bytes that may be counted, found out if need be.
    pub(crate) fn counted(&self) -> MemoryBudget {
        let budget = self.budget.unwrap_or_else(|| {
            let memory = machine::memory().unwrap_or(limits::ASSUMED_MEMORY);
            (memory / limits::MEMORY_SHARE).max(*limits::MEMORY_BUDGET.start())
        });
        let base = limits::UNCOUNTED_BASE.min(budget / limits::UNCOUNTED_BASE_SHARE);
        MemoryBudget::new(budget - budget / limits::UNCOUNTED_SHARE - base)
    }
}

/// `[archive]`: what is kept of the past, so that objects can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveConfig {
    /// Keep history.
    pub enabled: bool,
    /// Every commit of this time can be restored.
    pub retention: Duration,
    /// Most bytes that the archive should take.
    pub max_bytes: u64,
}

impl Default for ArchiveConfig {
    fn default() -> Self {
        let defaults = ArchiveOptions::default();
        Self {
            enabled: defaults.enabled,
            retention: defaults.retention,
            max_bytes: defaults.max_bytes,
        }
    }
}

/// `[objects]`: how objects run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectsConfig {
    /// Worker threads; `None` (`"auto"`) takes one for each core.
    pub workers: Option<usize>,
    /// An object with nothing to do for this long leaves memory.
    pub idle_timeout: Duration,
    /// A handler that has not ended after this long is given up and its object reset.
    pub event_timeout: Duration,
    /// Background work (`wait_until`) that has not ended after this long is dropped.
    pub background_timeout: Duration,
    /// Events that may wait for one object; more are refused as overload.
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
    /// Time in which a message that has begun must arrive whole; then its socket is closed with 1008.
    pub message_timeout: Duration,
    /// What may wait for one reader.
    pub send_buffer_bytes: u64,
    /// What happens when more would have to wait.
    pub slow_reader: SlowReader,
    /// Messages of one socket that its object has not finished handling; then no more is read from it.
    pub max_in_flight: usize,
    /// How long a message may wait for an overloaded object; then the socket is closed with 1013.
    pub delivery_patience: Duration,
    /// A peer that says nothing for this long gets a ping; `None` (`"off"`) never asks.
    pub ping_interval: Option<Duration>,
    /// A peer that says nothing for this long after a ping is gone.
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
    /// Whether clients may call objects' methods at `/rpc/{binding}/{name}/{method}`.
    pub enabled: bool,
}

/// `[outbound]`: requests that objects send to the world outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboundConfig {
    /// Whether objects may reach addresses that are not of the public internet: this machine, private networks,
    /// the metadata service of a cloud.
    pub allow_private: AllowPrivate,
    /// Time that making a connection may take.
    pub connect_timeout: Duration,
    /// Time from a request's getting a slot to its response's head, and the longest wait for a slot.
    pub request_timeout: Duration,
    /// Time that may pass between two pieces of a response's body.
    pub read_timeout: Duration,
    /// Requests that may be on their way at once, until their response's body has been read.
    pub max_in_flight: usize,
    /// Requests that may wait for that; more are refused as overload.
    pub max_queued: usize,
    /// Redirects that are followed; 0 hands them to the object.
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

/// `[log]`: what the process tells about itself, on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogConfig {
    /// A level (`warn`) or directives for parts (`warn,abide_runtime=debug`).
    pub level: String,
    /// The form of a line.
    pub format: LogFormat,
    /// Whether each answer of a listener is a line, too.
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

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for collectors.
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
