//! Customers.

use abide::prelude::*;
use abide_patterns::alarm::SharedAlarm;
use serde_json::Value;

use crate::{
    BillingError,
    resource::{Event, Resource, Row, View},
    states,
};

/// Who pays.
#[durable_object]
pub struct Customer {
    resource: Resource<states::Customer>,
}

impl DurableObject for Customer {
    fn new(state: State, _env: Env) -> Result<Self> {
        Ok(Self {
            resource: Resource::open(&state, &SharedAlarm::open(&state)?, |_, _| Ok(()))?,
        })
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        self.resource.woken()?;
        self.resource.feed()
    }
}

#[rpc]
impl Customer {
    /// Writes an outcome, and shows what it led to.
    pub async fn transition(
        &self,
        action: String,
        outcome: String,
        data: Value,
    ) -> Result<View, BillingError> {
        self.resource.transition(&action, &outcome, &data)
    }

    /// The present state.
    pub async fn get_state(&self) -> Result<View, BillingError> {
        self.resource.view()
    }

    /// Outcomes after one, oldest first.
    pub async fn get_history(&self, after: i64, limit: usize) -> Result<Vec<Event>, BillingError> {
        self.resource.history(after, limit)
    }

    /// The row of the read model.
    pub async fn get_row(&self) -> Result<Row, BillingError> {
        self.resource.row()
    }

    /// Compares a replay of the chain with the live state; the number of outcomes.
    pub async fn check(&self) -> Result<i64, BillingError> {
        self.resource.check()
    }
}
