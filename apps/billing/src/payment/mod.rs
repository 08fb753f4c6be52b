//! A payment, from a card to the money or to a reason why there is none.
//!
//! Contract: a payment is a workflow, one for each payment intent. Each of its steps is repeated alone, as long as it takes, under a
//! key of its own, so a crash or a lost answer moves no money twice and leaves no payment half done. What has come of it is
//! told to the invoice and then to the subscription, which alone decides what follows. A payment that asks the customer to
//! prove who they are waits for 22 hours; then it is taken back, unless the money was faster.

mod flow;
mod hook;
mod intent;
mod refund;
mod steps;

use abide::workflow::{Registry, WorkflowError, Workflows};
use abide::{Env, Error, LocalFuture, Result};
use serde::{Deserialize, Serialize};

use crate::{clock::Payments, states::NewIntent};

pub use flow::Payment;
pub(crate) use hook::replace_card;
pub use hook::{hear, hear_of_refund};
pub(crate) use intent::give_back;
pub use refund::{RefundTask, Refunding};

/// What a payment is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The payment intent's id.
    pub id: String,
    /// What it is created with.
    pub intent: NewIntent,
}

/// The workflows of the program.
pub fn workflows() -> Registry {
    Registry::new().with(Payment).with(Refunding)
}

/// Begins payments as workflows.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkflowPayments;

impl Payments for WorkflowPayments {
    fn begin(&self, env: &Env, id: String, intent: NewIntent) -> LocalFuture<Result<(), Error>> {
        let payments = Workflows::<Payment>::new(env);
        Box::pin(async move {
            let order = Order {
                id: id.clone(),
                intent,
            };
            payments.start(&id, &order).await?;
            Ok(())
        })
    }

    fn has_begun(&self, env: &Env, id: String) -> LocalFuture<Result<bool, Error>> {
        let payments = Workflows::<Payment>::new(env);
        Box::pin(async move {
            match payments.status(&id).await {
                Ok(_) => Ok(true),
                Err(WorkflowError::NotFound { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
    }
}

/// The payment of an intent has ended, or does not wait: whoever tells it something is late.
fn is_late(error: &WorkflowError) -> bool {
    matches!(
        error,
        WorkflowError::NotFound { .. }
            | WorkflowError::Ended { .. }
            | WorkflowError::TooManyEvents { .. }
    )
}
