//! Scheduled HTTP requests: once, at intervals or by cron.
//!
//! ```text
//! client ─▶ http ─▶ ScheduledRequest ── trigger (alarm, schedule) ──▶ outbox ── signed request ──▶ receiver
//!                        │      ▲                                       │
//!                        │      └────────────── its outcome ────────────┘
//!                        └── where it is ──▶ RequestIndex (16 shards) ◀── list ── http ◀── client
//! ```
//!
//! Each request is its own object ([`ScheduledRequest`]), so a million of them share nothing but the index
//! ([`RequestIndex`]), which only lists them.
#![forbid(unsafe_code)]

mod api;
mod assets;
mod definition;
mod error;
mod http;
mod index;
pub mod limits;
mod options;
mod pages;
mod record;
mod request;
mod sending;

pub use definition::{Definition, Invalid, InvalidCode, RequestInit};
pub use error::SchedulerError;
pub use http::router;
pub use index::{Capacity, List, ListFilter, Place, RequestIndex};
pub use record::{Entry, Outcome, Phase, Run, Runs, Shown};
pub use request::{Put, Room, ScheduledRequest};
pub use sending::{SigningKey, registry};

pub(crate) use index::Index;
