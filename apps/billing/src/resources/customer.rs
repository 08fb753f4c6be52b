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

/// Maximum number of ongoing subscriptions of a customer: all of them are in the customer's row of the read model.
const MAX_SUBSCRIPTIONS: usize = 1_000;

/// After this many further subscriptions, those that have ended are removed.
const FORGET_EVERY: usize = 100;

/// How long the creation of a subscription may take after its customer was notified: longer than any call.
const CREATION_MILLIS: i64 = 10 * 60 * 1_000;

/// Who pays.
#[durable_object]
pub struct Customer {
    resource: Resource<states::Customer>,
}

alarmed!(Customer);

calls! {
    impl Customer {
        /// Records a subscription that is about to be created. Repeating it changes nothing.
        pub async fn subscribe(&self, subscription: String) -> Result<View, BillingError> {
            let known = self.resource.read(|live| live.machine.subscriptions.len())?;
            if known > 0 && known.is_multiple_of(FORGET_EVERY) {
                self.forget_ended().await?;
            }
            let (is_known, count) = self.resource.read(|live| {
                let known = &live.machine.subscriptions;
                (known.contains_key(&subscription), known.len())
            })?;
            if is_known {
                return self.resource.view();
            }
            if count >= MAX_SUBSCRIPTIONS {
                return Err(BillingError::invalid(format!(
                    "A customer may have at most {MAX_SUBSCRIPTIONS} ongoing subscriptions: end some first."
                )));
            }
            self.resource
                .transition("subscribe", "subscribed", &Subscribed { subscription })
        }

        /// Deletes the customer, if there is no ongoing subscription.
        pub async fn delete(&self) -> Result<View, BillingError> {
            self.resource.view()?;
            self.forget_ended().await?;
            self.resource.transition("delete", "deleted", &Value::Null)
        }

        /// Queries all subscriptions and removes those that have ended.
        async fn forget_ended(&self) -> Result<(), BillingError> {
            let known = self.resource.read(|live| live.machine.subscriptions.clone())?;
            for (subscription, since) in known {
                let subscriptions = self.resource.env().object::<Subscription>();
                let state = subscriptions.get_by_name(&subscription).get_state().await?;
                let has_ended = match state {
                    Ok(view) => matches!(&*view.state, "canceled" | "incomplete_expired"),
                    // It was never created, or is about to be.
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
            Ok(())
        }
    }
}
