//! What a run says of itself, as JSON, so that the list of runs can be made again from the runs alone.

use crate::ident::NamespaceNo;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// The release of abide that has written it.
    pub(crate) release: String,
    /// The unique keys of the namespaces in it.
    pub(crate) namespaces: BTreeMap<u32, String>,
    /// The highest generation of its entries.
    pub(crate) generation: u32,
    pub(crate) level: u32,
    pub(crate) base: bool,
    /// The range of the log, as in the header.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The times of its entries, milliseconds since 1970.
    pub(crate) first_millis: u64,
    pub(crate) last_millis: u64,
}

impl About {
    /// Records that it has an object of this namespace.
    pub(crate) fn includes(&mut self, namespace: NamespaceNo, names: &[String]) {
        let name = || {
            let known = names.get(namespace.0.wrapping_sub(1) as usize);
            known.cloned().unwrap_or_default()
        };
        self.namespaces.entry(namespace.0).or_insert_with(name);
    }
}
