//! What abide is compared with. Each peer does the same work as ours, with the settings its users would choose.

pub(crate) mod ledger;
pub(crate) mod postgres;
pub(crate) mod sqlite;
pub(crate) mod wire;
pub(crate) mod workerd;
