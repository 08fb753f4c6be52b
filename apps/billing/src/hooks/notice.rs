//! The content of webhooks.

use abide::Timeline;
use serde::{Deserialize, Serialize};

use super::types;
use crate::resource::View;

/// The `data` of a webhook: an event of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The same for each repetition: the resource's id, the number of the outcome, and the event. After a restore of the
    /// resource, whose numbers repeat, also its timeline.
    pub id: String,
    /// The event, such as `invoice.paid`: one of [`TYPES`](super::TYPES).
    #[serde(rename = "type")]
    pub event: String,
    /// The resource as of the event.
    pub resource: View,
}

impl Notice {
    pub(super) fn new(resource: View, timeline: &Timeline, what: &str) -> Self {
        let outcome = match timeline.since() {
            Some(_) => format!("{}.{}", timeline.id(), resource.seq),
            None => resource.seq.to_string(),
        };
        Self {
            id: format!("{}.{outcome}.{what}", resource.id),
            event: types::event(&resource.kind, what),
            resource,
        }
    }
}
