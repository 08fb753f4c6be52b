//! What tests of payments and of webhooks have in common: a node with the engine and without a read model, on a disk in memory.

use std::{path::Path, sync::Arc, time::Duration};

use abide::workflow;
use abide::{
    ClassOptions, Node, NodeBuilder, Outbound,
    clock::{Clock, TestClock},
    storage::{SimDisk, Store, StoreOptions},
};
use billing::{
    clock::AnyPayments,
    gateway::AnyGateway,
    payment::{self, WorkflowPayments},
    resources,
};

/// A node on what there is on a disk, with a gateway and a network.
pub(crate) fn engine(
    disk: &SimDisk,
    clock: &TestClock,
    gateway: AnyGateway,
    network: impl Outbound,
) -> NodeBuilder {
    let time = clock.clone();
    let options = StoreOptions::small().unix_millis(Arc::new(move || time.unix_millis()));
    let store = Store::open(Arc::new(disk.clone()), Path::new("/data"), options).unwrap();
    resources::register(Node::builder(store))
        .class::<workflow::WorkflowInstance>(workflow::class_options())
        .class::<workflow::WorkflowDirectory>(ClassOptions::default())
        .with(payment::workflows())
        .with(workflow::WorkflowOptions::default())
        .with(gateway)
        .with(AnyPayments::new(WorkflowPayments))
        .outbound(Arc::new(network))
        .clock(Arc::new(clock.clone()))
}

/// Lets so much time pass, a step of it at a time, with what each makes due.
pub(crate) async fn passes(node: &Node, clock: &TestClock, time: Duration, step: Duration) {
    let mut left = time;
    while !left.is_zero() {
        let now = left.min(step);
        left -= now;
        clock.advance(now);
        node.settle().await.unwrap();
    }
}
