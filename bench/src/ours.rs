//! Our side of the benches.

pub(crate) mod alarms;
pub(crate) mod backlog;
pub(crate) mod bank;
pub(crate) mod child;
pub(crate) mod commits;
pub(crate) mod copies;
pub(crate) mod fairness;
pub(crate) mod heavy;
pub(crate) mod node;
pub(crate) mod objects;
pub(crate) mod outbox;
pub(crate) mod outcomes;
pub(crate) mod subscription;
pub(crate) mod values;
