//! The built-in outbox: an object class and its HTTP API, for programs in any language.
//!
//! Contract: a response that accepts a message (202) leaves when the message is on disk. A request with an
//! `Idempotency-Key` is applied once: its response is remembered with the outbox and repeated. The messages of one
//! request are accepted together or not at all. A refusal has the common form of errors, and changes nothing.
//!
//! ```
//! use abide::Host;
//! use abide::{outbox::handlers::HttpDelivery, outbox::{Deliver, OutboxOptions, Registry}, outbox::service};
//!
//! # fn build() -> abide::server::HostBuilder {
//! let registry = Registry::new().with(HttpDelivery::new()).open_to_clients(HttpDelivery::KIND);
//! service::install(Host::builder("data"), registry, OutboxOptions::default()).router(service::router)
//! # }
//! ```
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /outbox/{name}/messages` with a message, or several | 202, the ids, `Location` |
//! | `GET /outbox/{name}/messages?status=&before=&limit=` | 200, newest first; dead letters only with `status=failed` |
//! | `GET /outbox/{name}/messages/{id}` | 200, with payload and history |
//! | `DELETE /outbox/{name}/messages/{id}` | 200: a queued message is canceled, a dead letter discarded |
//! | `POST /outbox/{name}/messages/{id}/redrive` | 200: a dead letter is queued again |
//! | `PUT /outbox/{name}/messages/{id}/payload` | 200: a dead letter says something else |
//! | `GET /outbox/{name}/dead-letters?kind=&destination=&before=&limit=` | 200, newest first |
//! | `POST /outbox/{name}/redrive`, `POST /outbox/{name}/discard` | 200: the same for many dead letters |
//! | `GET /outbox/{name}` | 200: messages counted, destinations |
//! | `POST /outbox/{name}/destinations/resume` | 204: the rest of a destination ends |
//! | `GET /outbox/{name}/live` | every change, as it happens: see [`live`](crate::live) |
//! | `GET /outbox/{name}/page` | the newest messages, on a page that keeps itself up to date |
//! | `GET /outbox/openapi.json` | all of this, for programs |
//!
//! Messages of a kind are taken from clients, and edited by them, if the registry has [opened](Registry::open_to_clients) the
//! kind; otherwise 403 `closed_kind`. A program that writes all messages itself mounts [`operators_router`], which has the rest of
//! the table.
//!
//! What a web page of another origin asks for, and what is asked under a name that a stranger could own, the host refuses
//! (`server.hosts`, `server.origins`).

mod error;
mod object;
mod request;
mod router;

use abide::server::{AuditedCall, HostBuilder};

use crate::{OutboxOptions, Registry};

pub use object::{Outbox, OutboxStub};
pub use request::{Delayed, MAX_MESSAGES, Refused, Shown};
pub use router::{OPENAPI, operators_router, router};

/// The methods that operators may also call over `/rpc`.
const AUDITED: &[AuditedCall] = &[
    AuditedCall::WithArguments("remove"),
    AuditedCall::WithArguments("redrive"),
    AuditedCall::WithArguments("redrive_all"),
    AuditedCall::WithArguments("discard_all"),
    AuditedCall::WithArguments("resume"),
    // A payload may be long, and contain secrets.
    AuditedCall::NameOnly("edit"),
];

/// Registers the class, with the handlers and the options of all its outboxes.
pub fn install(host: HostBuilder, registry: Registry, options: OutboxOptions) -> HostBuilder {
    host.object::<Outbox>()
        .audit_calls::<Outbox>(AUDITED)
        .with(registry)
        .with(options)
}
