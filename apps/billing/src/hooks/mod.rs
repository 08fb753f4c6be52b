//! Webhooks: notify receivers of events of resources.
//!
//! Contract: a [`Notice`] is written in the transaction of its outcome. From the resource's feed it goes to the outbox
//! of every [`Endpoint`] that wants its type, which delivers it, signed, at least once. Notices of one resource reach
//! an endpoint in order; a notice that the endpoint rejects holds up later ones of the same resource, and of no other.
//! An endpoint is notified of events after its registration, and possibly of events just before it. A slow or failing
//! receiver never blocks a resource.
//!
//! The outbox of an endpoint is the [ready-made one](abide::outbox::service), under the endpoint's id: there one can
//! inspect waiting and failed messages, and send them again.

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
    outbox::{OutboxOptions, Registry},
};

pub use delivery::{NoticeDelivery, Told};
pub use endpoint::{Endpoint, NewEndpoint, Registered};
pub use endpoints::Endpoints;
pub(crate) use endpoints::endpoints;
pub(crate) use feed::Feed;
pub use notice::Notice;
pub use types::TYPES;

/// If this is in the environment of a node's objects, the node has webhooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Webhooks;

/// Adds webhooks to a node.
pub fn register(node: NodeBuilder) -> NodeBuilder {
    node.class::<Endpoints>(ClassOptions::default())
        .class::<service::Outbox>(ClassOptions::default())
        .with(Registry::new().with(NoticeDelivery))
        .with(OutboxOptions::default())
        .with(Webhooks)
}

/// Adds webhooks to a host.
pub fn install(host: HostBuilder) -> HostBuilder {
    let host = host
        .object_with::<Endpoints>(ClassOptions::default())
        .with(Webhooks);
    service::install(
        host,
        Registry::new().with(NoticeDelivery),
        OutboxOptions::default(),
    )
}
