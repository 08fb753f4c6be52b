//! Payments of invoices.
//!
//! Contract: a refund is checked, reserved, and put on the payment's schedule in one transaction; its workflow is
//! started from there, until it has started. So a refused refund leaves nothing, and a reserved one has a result.

use std::{cell::OnceCell, time::Duration};

use abide::prelude::*;
use abide::{
    schedule::{self, Failure, Firing, RetryPolicy, Schedule, Spec},
    workflow::Workflows,
};
use serde::{Deserialize, Serialize};

use super::calls::{calls, timeless};
use crate::{
    BillingError, Money,
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

/// The kind of the timers that start refunds.
const START_REFUND: &str = "refund";

/// Attempts to start a refund, whose money is reserved: about forty days of them.
const START: RetryPolicy = RetryPolicy::Exponential {
    base: Duration::from_secs(2),
    max: Duration::from_hours(1),
    max_attempts: abide::limits::schedule::MAX_ATTEMPTS,
};

/// One payment of an invoice.
#[durable_object]
pub struct PaymentIntent {
    ctx: Ctx,
    resource: Resource<states::PaymentIntent>,
    /// Starts refunds; most payments have none.
    refunds: OnceCell<Schedule>,
}

impl DurableObject for PaymentIntent {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let intent = Self {
            resource: Resource::open(&ctx, |_, _| Ok(()))?,
            refunds: OnceCell::new(),
            ctx,
        };
        let has_refunds = intent
            .resource
            .read(|live| !live.machine.refunds.is_empty())?;
        if has_refunds {
            intent.refunds()?;
        }
        Ok(intent)
    }
}

impl PaymentIntent {
    /// The schedule that starts refunds.
    fn refunds(&self) -> Result<&Schedule> {
        if let Some(refunds) = self.refunds.get() {
            return Ok(refunds);
        }
        let options = schedule::ScheduleOptions::default().retry(START);
        let refunds = Schedule::open(&self.ctx, options)?;
        let env = self.ctx.env().clone();
        refunds.on_firing_in_background(move |firing| start(env.clone(), firing))?;
        Ok(self.refunds.get_or_init(|| refunds))
    }
}

/// Starts a refund, unless it has been started.
async fn start(env: Env, firing: Firing) -> Result<(), Failure> {
    let task: RefundTask = firing.metadata()?;
    let started = Workflows::<Refunding>::new(&env)
        .start(&task.id, &task)
        .await;
    started.map_err(Error::from)?;
    Ok(())
}

timeless!(PaymentIntent);

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
                    let text = format!("{} already exists with different content.", order.refund);
                    return Err(BillingError::invalid(text));
                }
                None => {}
            }
            self.resource.must_take("refund", "requested")?;
            self.resource.read(|live| live.machine.may_refund(&order))??;
            let task = RefundTask { id: order.refund.clone(), refund: new.clone() };
            let (at, refunds) = (self.resource.now().0, self.refunds()?);
            self.resource.atomically(|| {
                self.resource.write("refund", "requested", &order)?;
                let spec = Spec::once(START_REFUND, at).metadata(&task)?;
                refunds.upsert(&order.refund, &spec).map_err(Error::from)?;
                Ok(())
            })?;
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
                Some(true) => self.resource.view(),
                _ => self.resource.transition("refund", "requested", order),
            }
        }
    }
}
