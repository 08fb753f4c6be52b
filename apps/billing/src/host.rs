//! A host with everything that billing needs.

use std::sync::Arc;

use abide::server::HostBuilder;
use abide::{
    projection::{Projection, ReadModel},
    queue::{self, Queues},
    workflow,
};

use crate::{
    clock::AnyPayments,
    gateway::AnyGateway,
    hooks,
    payment::{self, WorkflowPayments},
    read::Reader,
    resources, router,
    web::Upkeep,
};

/// The queue that feeds the read model.
pub const QUEUE: &str = "read-model";

/// Adds the resources, payments through a gateway, a read model with the [tables](crate::read::tables) of billing,
/// webhooks, and the HTTP API.
pub fn install(host: HostBuilder, gateway: AnyGateway, model: Arc<dyn ReadModel>) -> HostBuilder {
    let projection = Projection::new(QUEUE, &*model);
    let queues = projection.install(Queues::new(), Arc::clone(&model));
    let host = queue::install(hooks::install(resources::install(host)), queues);
    workflow::install(
        host,
        payment::workflows(),
        workflow::WorkflowOptions::default(),
    )
    .with(projection)
    .with(Reader(model))
    .with(gateway)
    .with(AnyPayments::new(WorkflowPayments))
    .with(Upkeep::default())
    .router(router)
}
