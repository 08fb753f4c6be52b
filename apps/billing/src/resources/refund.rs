//! Refunds of payments.

use abide::durable_object;

use super::calls::{alarmed, calls};
use crate::{
    BillingError,
    machines::ABSENT,
    resource::{Resource, View},
    states::{self, NewRefund},
};

/// A refund of one payment.
#[durable_object]
pub struct Refund {
    resource: Resource<states::Refund>,
}

alarmed!(Refund);

calls! {
    impl Refund {
        /// Creates it. Repeating it with the same terms changes nothing.
        pub async fn create(&self, new: NewRefund) -> Result<View, BillingError> {
            let known = self.resource.read(|live| {
                (live.state != ABSENT).then(|| live.machine.terms.as_ref() == Some(&new))
            })?;
            match known {
                None => self.resource.transition("create", "created", &new),
                Some(true) => self.resource.view(),
                Some(false) => Err(BillingError::invalid(format!(
                    "{} already exists with different content.",
                    self.resource.id()
                ))),
            }
        }
    }
}
