//! Payments of invoices.

use abide::durable_object;
use abide::workflow::Workflows;
use serde::{Deserialize, Serialize};

use super::calls::{alarmed, calls};
use crate::{
    BillingError, Money,
    broken::{Variant, broken},
    machines::ABSENT,
    payment::{RefundTask, Refunding},
    resource::{Resource, View},
    states::{self, NewIntent, NewRefund, RefundEnd, RefundOrder, RefundTo},
};

/// A requested refund of a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewPaymentRefund {
    /// The refund's id.
    pub refund: String,
    /// The amount; by default everything that is left.
    pub amount: Option<Money>,
    /// Where it goes.
    pub to: RefundTo,
    /// Why.
    pub reason: Option<String>,
    /// The credit note that it carries out.
    pub credit_note: Option<String>,
}

/// One payment of an invoice.
#[durable_object]
pub struct PaymentIntent {
    resource: Resource<states::PaymentIntent>,
}

alarmed!(PaymentIntent);

calls! {
    impl PaymentIntent {
        /// Creates it. Repeating it with the same intent changes nothing.
        pub async fn create(&self, intent: NewIntent) -> Result<View, BillingError> {
            let known = self.resource.read(|live| {
                (live.state != ABSENT).then(|| live.machine.intent.as_ref() == Some(&intent))
            })?;
            match known {
                None => self.resource.transition("create", "created", &intent),
                Some(true) => self.resource.view(),
                Some(false) => Err(BillingError::invalid(format!(
                    "{} already exists with different content.",
                    self.resource.id()
                ))),
            }
        }

        /// Refunds a part of the payment, and returns the refund. An amount that was or is being refunded cannot be
        /// refunded again. Repeating it with the same id changes nothing.
        pub async fn refund(&self, wanted: NewPaymentRefund) -> Result<NewRefund, BillingError> {
            let id = self.resource.id().to_owned();
            let (intent, known, left) = self.resource.read(|live| {
                let refund = live.machine.refunds.get(&wanted.refund);
                let known = refund.map(|refund| refund.order.clone());
                (live.machine.terms().cloned(), known, live.machine.refundable())
            })?;
            self.resource.view()?;
            let (intent, left) = (intent?, left?);
            let order = RefundOrder {
                amount: wanted.amount.or(known.as_ref().map(|known| known.amount)).unwrap_or(left),
                refund: wanted.refund,
                to: wanted.to,
                reason: wanted.reason,
                credit_note: wanted.credit_note,
            };
            let new = NewRefund::of(&id, &intent, order.clone());
            match known {
                Some(known) if known == order => return Ok(new),
                Some(_) => {
                    let text = format!("{} is the refund of something else.", order.refund);
                    return Err(BillingError::invalid(text));
                }
                None => {}
            }
            self.resource.must_take("refund", "requested")?;
            self.resource.read(|live| live.machine.may_refund(&order))??;
            // It is on disk before anybody is notified, and continues on its own: its first step reserves the money
            // again.
            let task = RefundTask { id: order.refund.clone(), refund: new.clone() };
            let refunds = Workflows::<Refunding>::new(self.resource.env());
            refunds.start(&order.refund, &task).await.map_err(abide::Error::from)?;
            self.reserved(&order)?;
            Ok(new)
        }

        /// Reserves money for a refund, and returns the payment. Repeating it changes nothing.
        pub async fn reserve(&self, order: RefundOrder) -> Result<View, BillingError> {
            self.reserved(&order)
        }

        /// Records the result of a refund. Repeating it changes nothing.
        pub async fn end_refund(&self, end: RefundEnd) -> Result<View, BillingError> {
            let has_ended = self.resource.read(|live| {
                let refund = live.machine.refunds.get(&end.refund);
                refund.is_none_or(|refund| refund.succeeded || refund.failure.is_some())
            })?;
            if has_ended {
                return self.resource.view();
            }
            let outcome = if end.failure.is_none() { "refunded" } else { "failed" };
            self.resource.transition("refund", outcome, &end)
        }

        fn reserved(&self, order: &RefundOrder) -> Result<View, BillingError> {
            let known = self.resource.read(|live| {
                let refund = live.machine.refunds.get(&order.refund);
                refund.map(|refund| refund.order == *order)
            })?;
            match known {
                Some(true) if !broken(Variant::RefundTwice) => self.resource.view(),
                _ => self.resource.transition("refund", "requested", order),
            }
        }
    }
}
