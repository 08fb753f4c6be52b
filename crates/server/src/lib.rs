//! The server of abide: everything between a node of durable objects and the network.
//!
//! A [`Host`] is a complete process: settings ([`Config`]), the data directory, the node that runs the objects, the
//! HTTP gateway in front of a user's axum router, the admin listener, logs, metrics, and a clean shutdown.
//!
//! Out of scope: what an object's class does, how a commit becomes durable, when a gate opens. This crate passes
//! requests to a router; everything that the router's handlers get from objects has already left the output gate.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod access;
mod activity;
mod admin;
mod api_error;
#[cfg(feature = "clap")]
mod args;
mod asset;
mod client;
mod cluster;
mod config;
mod connection_headers;
mod core;
mod descriptors;
mod dry_run;
mod error;
mod extract;
mod forward;
mod front;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod guard;
mod half_close;
mod head;
mod history;
mod host;
mod idempotency_key;
mod json_rpc;
mod limits;
mod linger;
mod machine;
mod meter;
mod metric;
mod outbound;
mod pace;
mod page;
mod plain_words;
mod readiness;
mod request_host;
mod request_log;
mod routes;
mod running;
mod service;
mod site;
mod strict_json;
mod telemetry;
mod tls;
mod websocket;

pub use api_error::ApiError;
#[cfg(feature = "clap")]
pub use args::{MigrateArgs, ServeArgs};
pub use asset::{Asset, asset_router};
pub use client::{ClientAddr, ForwardedHeader};
#[cfg(feature = "cluster")]
pub use cluster::{ClusterStatus, OwnedShards, RebuildError, cluster_database, rebuild_cluster};
pub use config::section as setting;
pub use config::{
    AdminConfig, ArchiveConfig, ClusterAddress, ClusterConfig, Config, ConfigError,
    ConnectionsPerClient, DataConfig, ListenAddress, LogConfig, LogFormat, MemoryConfig,
    ObjectsConfig, OutboundConfig, Replication, RpcConfig, SecretOption, ServerConfig, Sources,
    StorageConfig, StoreAccess, TlsConfig, WebSocketConfig,
};
pub use connection_headers::{is_connection_header, remove_connection_headers};
pub use dry_run::{DryRun, FailedMigration};
pub use error::HostError;
pub use extract::{JsonBody, TextBody, UrlPath, UrlQuery};
pub use forward::object_router;
pub use front::FrontPage;
#[cfg(feature = "history")]
pub use history::{HistoryContent, HistoryPlace, HistorySource};
pub use host::{Host, HostBuilder};
pub use idempotency_key::IdempotencyKey;
pub use json_rpc::{AuditedCall, rpc_router};
pub use outbound::policy::{
    AddressBlock, AddressPolicy, AllowPrivate, ForbiddenAddress, Unresolved,
};
pub use outbound::tls::client_config as tls_client_config;
pub use page::{Page, page_headers};
pub use request_host::{InvalidHost, RequestHost};
pub use request_log::RequestId;
pub use running::{LocalHost, RunningHost};
pub use site::{Hosts, Origins};
pub use strict_json::{StrictJson, read_json};

/// The guide's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/access.md")]
struct AccessGuide;

/// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
