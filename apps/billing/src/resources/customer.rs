//! Customers.

use abide::durable_object;
use serde_json::Value;

use super::{
    Subscription,
    calls::{alarmed, calls},
};
use crate::{
    BillingError,
    resource::{Resource, View},
    states::{self, Subscribed},
};

/// How long a subscription may take to be created after its customer has heard of it: longer than any call.
const CREATION_MILLIS: i64 = 10 * 60 * 1_000;

/// Who pays.
#[durable_object]
pub struct Customer {
    resource: Resource<states::Customer>,
}

alarmed!(Customer);

calls! {
    impl Customer {
        /// Hears of a subscription that is about to be created. Once more it changes nothing.
        pub async fn subscribe(&self, subscription: String) -> Result<View, BillingError> {
            let is_known = self
                .resource
                .read(|live| live.machine.subscriptions.contains_key(&subscription))?;
            if is_known {
                return self.resource.view();
            }
            self.resource
                .transition("subscribe", "subscribed", &Subscribed { subscription })
        }

        /// Deletes it, if none of its subscriptions goes on.
        pub async fn delete(&self) -> Result<View, BillingError> {
            let known = self.resource.read(|live| live.machine.subscriptions.clone())?;
            for (subscription, since) in known {
                let subscriptions = self.resource.env().object::<Subscription>();
                let state = subscriptions.get_by_name(&subscription).get_state().await?;
                let has_ended = match state {
                    Ok(view) => matches!(&*view.state, "canceled" | "incomplete_expired"),
                    // It never was, or is about to be.
                    Err(BillingError::NotFound { .. }) => {
                        since.plus(CREATION_MILLIS) < self.resource.now()
                    }
                    Err(error) => return Err(error),
                };
                let is_known = self
                    .resource
                    .read(|live| live.machine.subscriptions.contains_key(&subscription))?;
                if has_ended && is_known {
                    self.resource.write("leave", "left", &Subscribed { subscription })?;
                }
            }
            self.resource.transition("delete", "deleted", &Value::Null)
        }
    }
}
