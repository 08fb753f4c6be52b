//! Webhooks: what happens to a resource is told to whoever wants to know.
//!
//! Contract: a [`Notice`] is written in the transaction of the outcome that it tells of, or the outcome did not happen. From the
//! resource's feed it goes to the outbox of every [`Endpoint`] that wants its type, which delivers it, signed, at least
//! once. Notices of one resource come to one endpoint in their order; one that the endpoint does not take holds up the later
//! ones of its resource, and of no other. An endpoint is told of what happens after it was registered, and perhaps of what
//! happened a moment before. Nothing that a receiver does holds up a resource.
//!
//! The outbox of an endpoint is the [ready-made one](abide::outbox::service), under the endpoint's id: there one sees what
//! waits and what was given up, and sends it again.

mod delivery;
mod endpoint;
mod endpoints;
mod feed;
pub mod limits;
mod notice;
mod types;

use abide::{ClassOptions, NodeBuilder, server::HostBuilder};
use abide::{
    outbox::service,
    outbox::{Options, Registry},
};

pub use delivery::{NoticeDelivery, Told};
pub use endpoint::{Endpoint, NewEndpoint, Registered};
pub use endpoints::Endpoints;
pub(crate) use endpoints::endpoints;
pub(crate) use feed::Feed;
pub use notice::Notice;
pub use types::TYPES;

/// The name under which the class of endpoints is registered.
const BINDING: &str = "WEBHOOK_ENDPOINTS";

/// A node whose objects find this has webhooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Webhooks;

/// Adds webhooks to a node.
pub fn register(node: NodeBuilder) -> NodeBuilder {
    node.class::<Endpoints>(BINDING, ClassOptions::default())
        .class::<service::Outbox>(service::BINDING, ClassOptions::default())
        .with(Registry::new().with(NoticeDelivery))
        .with(Options::default())
        .with(Webhooks)
}

/// Adds webhooks to a host.
pub fn install(host: HostBuilder) -> HostBuilder {
    let host = host
        .object_with::<Endpoints>(BINDING, ClassOptions::default())
        .with(Webhooks);
    service::install(
        host,
        Registry::new().with(NoticeDelivery),
        Options::default(),
    )
}
