//! The content of webhooks.

use serde::{Deserialize, Serialize};

use super::types;
use crate::resource::View;

/// The `data` of a webhook: an event of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The same for each repetition: the resource's id, the number of the outcome, and the event.
    pub id: String,
    /// The event, such as `invoice.paid`: one of [`TYPES`](super::TYPES).
    #[serde(rename = "type")]
    pub event: String,
    /// The resource as of the event.
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
