//! A payment, from the card to its result.
//!
//! Contract: a payment is a workflow, one for each payment intent. Each step is retried on its own, as long as it
//! takes, under its own key, so a crash or a lost response never moves money twice and leaves no payment half done. The
//! result is reported to the invoice and then to the subscription, which alone decides what follows. A payment that
//! requires customer authentication waits for 22 hours; then it is canceled, unless the money was faster.

mod flow;
mod hook;
mod intent;
mod refund;
mod steps;

use abide::workflow::{WorkflowError, WorkflowRegistry, Workflows};
use abide::{Env, Error, LocalFuture, Result};
use serde::{Deserialize, Serialize};

use crate::{clock::Payments, states::NewIntent};

pub use flow::Payment;
pub(crate) use hook::replace_card;
pub use hook::{handle_event, handle_refund_event};
pub(crate) use intent::give_back;
pub use refund::{RefundTask, Refunding};

/// The input of a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The payment intent's id.
    pub id: String,
    /// What it is created with.
    pub intent: NewIntent,
}

/// The workflows of the program.
pub fn workflows() -> WorkflowRegistry {
    WorkflowRegistry::new().with(Payment).with(Refunding)
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

/// The payment of an intent has ended, or is not waiting: the notification is late.
fn is_late(error: &WorkflowError) -> bool {
    matches!(
        error,
        WorkflowError::NotFound { .. }
            | WorkflowError::Ended { .. }
            | WorkflowError::TooManyEvents { .. }
    )
}
