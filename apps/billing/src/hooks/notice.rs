//! What receivers are told.

use serde::{Deserialize, Serialize};

use super::types;
use crate::resource::View;

/// What a receiver is told, as `data` of a webhook: something has happened to a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The same however often it comes: the resource's id, the number of the outcome, and what happened.
    pub id: String,
    /// What happened, such as `invoice.paid`: one of [`TYPES`](super::TYPES).
    #[serde(rename = "type")]
    pub event: String,
    /// The resource as it was then.
    pub resource: View,
}

impl Notice {
    pub(super) fn new(resource: View, what: &str) -> Self {
        Self {
            id: format!("{}.{}.{what}", resource.id, resource.seq),
            event: types::event(&resource.kind, what),
            resource,
        }
    }
}
