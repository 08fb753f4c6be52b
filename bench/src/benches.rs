//! The benches, one file each. Each has `Options` and `run`.

pub(crate) mod alarms;
pub(crate) mod archive;
pub(crate) mod cold_start;
pub(crate) mod commits;
pub(crate) mod http;
pub(crate) mod memory;
pub(crate) mod n_plus_one;
pub(crate) mod outbox;
pub(crate) mod outbox_scale;
pub(crate) mod recovery;
pub(crate) mod rpc;
pub(crate) mod sockets;
