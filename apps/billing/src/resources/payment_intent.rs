//! Payments of invoices.

use abide::durable_object;

use super::calls::{alarmed, calls};
use crate::{
    BillingError,
    machines::ABSENT,
    resource::{Resource, View},
    states::{self, NewIntent},
};

/// One payment of an invoice.
#[durable_object]
pub struct PaymentIntent {
    resource: Resource<states::PaymentIntent>,
}

alarmed!(PaymentIntent);

calls! {
    impl PaymentIntent {
        /// Creates it. Once more with the same intent it changes nothing.
        pub async fn create(&self, intent: NewIntent) -> Result<View, BillingError> {
            let known = self.resource.read(|live| {
                (live.state != ABSENT).then(|| live.machine.intent.as_ref() == Some(&intent))
            })?;
            match known {
                None => self.resource.transition("create", "created", &intent),
                Some(true) => self.resource.view(),
                Some(false) => Err(BillingError::invalid(format!(
                    "{} is the payment of something else.",
                    self.resource.id()
                ))),
            }
        }
    }
}
