//! Customers.

use abide::durable_object;
use serde_json::Value;

use super::{
    Subscription,
    calls::{alarmed, calls},
};
use crate::{
    BillingError, Time,
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
        /// Records a subscription that is about to be created. Repeating it changes nothing, except that a creation that
        /// begins again has as much time again.
        pub async fn subscribe(&self, subscription: String) -> Result<View, BillingError> {
            let known = self.resource.read(|live| live.machine.subscriptions.len())?;
            if known > 0 && known.is_multiple_of(FORGET_EVERY) {
                self.forget_ended().await?;
            }
            let (since, count) = self.resource.read(|live| {
                let known = &live.machine.subscriptions;
                (known.get(&subscription).copied(), known.len())
            })?;
            if since.is_some_and(|since| !self.is_old(since)) {
                return self.resource.view();
            }
            if since.is_none() && count >= MAX_SUBSCRIPTIONS {
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
                let state = subscriptions.get_by_name(&subscription).get_state().await;
                let has_ended = match state {
                    Ok(view) => matches!(&*view.state, "canceled" | "incomplete_expired"),
                    // It was never created, or is about to be.
                    Err(BillingError::NotFound { .. }) => self.is_old(since),
                    Err(error) => return Err(error),
                };
                // Its creation may have begun again in between.
                let is_same = self
                    .resource
                    .read(|live| live.machine.subscriptions.get(&subscription) == Some(&since))?;
                if has_ended && is_same {
                    self.resource.write("leave", "left", &Subscribed { subscription })?;
                }
            }
            Ok(())
        }

        /// True if a creation that began then is over.
        fn is_old(&self, since: Time) -> bool {
            since.plus(CREATION_MILLIS) < self.resource.now()
        }
    }
}
