//! A refund, from reserving the money in the payment intent to its result.
//!
//! Contract: a refund is a workflow, which its payment intent starts once it has reserved the money. Its first step
//! reserves it again, which changes nothing; each of the others is retried on its own, under its own key. A crash or a lost response therefore never refunds
//! twice. An amount that the gateway rejects, or fails to refund, can be refunded again.

use abide::workflow::{Attempt, Context, Failure, Workflow};
use serde::{Deserialize, Serialize};

use super::steps::{self, MAX_PAUSE, PAUSE, listen, step};
use crate::{
    BillingError,
    gateway::{self, AnyGateway, GatewayError, RefundCharge, RefundStatus},
    resources::{Invoice, PaymentIntent, Refund, Subscription},
    states::{
        self, CreditEffect, CreditNote, Credited, NewRefund, RefundEnd, RefundSettled, RefundTo,
    },
};

/// The input of a refund.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundTask {
    /// The refund's id.
    pub id: String,
    /// What it is.
    pub refund: NewRefund,
}

/// One refund.
#[derive(Clone, Copy, Debug)]
pub struct Refunding;

impl Workflow for Refunding {
    const NAME: &'static str = "refund";
    type Input = RefundTask;
    type Output = bool;

    async fn run(&self, ctx: Context, task: RefundTask) -> Result<bool, Failure> {
        let reserved = step(&ctx, "reserve", async |attempt| {
            reserve(&attempt, &task).await
        })
        .await?;
        let failure = match (reserved, task.refund.to) {
            (Err(refused), _) => Some(refused),
            (Ok(payment), RefundTo::Card) => give_back(&ctx, &task, payment).await?,
            (Ok(_), RefundTo::Balance) => {
                let credited = async |attempt: Attempt| grant(&attempt, &task).await;
                step(&ctx, "credit", credited).await?
            }
        };
        step(&ctx, "report", async |attempt| {
            report(&attempt, &task, failure.clone()).await
        })
        .await?;
        Ok(failure.is_none())
    }
}

/// Creates the refund, and reserves the money in its payment intent. Returns the payment's id at the gateway, or why
/// not.
async fn reserve(attempt: &Attempt, task: &RefundTask) -> Result<Result<String, String>, Failure> {
    let env = attempt.env();
    let refund = env.object::<Refund>().get_by_name(&task.id);
    let created = refund.create(task.refund.clone()).await;
    created.map_err(steps::refused)?;
    let intent = env.object::<PaymentIntent>();
    let intent = intent.get_by_name(&task.refund.payment_intent);
    let view = match intent.reserve(task.refund.order(&task.id)).await {
        Ok(view) => view,
        Err(BillingError::Object(error)) => return Err(error.into()),
        Err(refused) => return Ok(Err(refused.to_string())),
    };
    if let Some(note) = &task.refund.credit_note {
        let note = CreditNote {
            id: note.clone(),
            amount: task.refund.amount,
            effect: match task.refund.to {
                RefundTo::Card => CreditEffect::Refunded,
                RefundTo::Balance => CreditEffect::Credited,
            },
            refund: Some(task.id.clone()),
            reason: task.refund.reason.clone(),
        };
        let invoice = env.object::<Invoice>();
        let invoice = invoice.get_by_name(&task.refund.invoice);
        invoice.take_note(note).await.map_err(steps::refused)?;
    }
    let live: states::PaymentIntent = view.live().map_err(steps::refused)?;
    let payment = live.payment;
    Ok(payment.ok_or_else(|| "the gateway has no such payment".to_owned()))
}

/// Lets the gateway refund the money, however long that takes. Returns why it failed, if it did.
async fn give_back(
    ctx: &Context,
    task: &RefundTask,
    payment: String,
) -> Result<Option<String>, Failure> {
    let refund = match submit(ctx, task, payment).await? {
        Ok(refund) => follow(ctx, task, refund).await?,
        Err(refused) => return Ok(Some(refused)),
    };
    let is_back = refund.status == RefundStatus::Succeeded;
    Ok((!is_back).then(|| refund.failure.unwrap_or_else(|| "failed".to_owned())))
}

/// Begins the refund at the gateway, once: what there is of it, or why it was refused.
async fn submit(
    ctx: &Context,
    task: &RefundTask,
    payment: String,
) -> Result<Result<gateway::Refund, String>, Failure> {
    let charge = RefundCharge {
        payment,
        amount: task.refund.amount,
        reference: task.id.clone(),
    };
    step(ctx, "submit", async |attempt| {
        let env = attempt.env();
        let gateway = env.require::<AnyGateway>()?;
        let key = format!("{}-create", task.id);
        let created = match gateway.refund(env, &key, &charge).await {
            Err(GatewayError::Refused { text }) => return Ok(Err(text)),
            created => ours(task, created.map_err(steps::failure)?)?,
        };
        let known = RefundSettled {
            refund: Some(created.id.clone()),
            failure: None,
        };
        write(&attempt, &task.id, "submit", "submitted", &known).await?;
        Ok(Ok(created))
    })
    .await
}

/// Asks about a refund until it has ended: ever more rarely, and whenever a webhook comes.
async fn follow(
    ctx: &Context,
    task: &RefundTask,
    mut refund: gateway::Refund,
) -> Result<gateway::Refund, Failure> {
    let mut pause = PAUSE;
    while refund.status == RefundStatus::Pending {
        listen(ctx, pause).await?;
        refund = step(ctx, "status", async |attempt| {
            let env = attempt.env();
            let gateway = env.require::<AnyGateway>()?;
            let asked = gateway.refund_status(env, &refund.id).await;
            match asked {
                // The money may be in transit nevertheless: an operator must look at this.
                Err(GatewayError::Refused { text }) => {
                    tracing::error!(refund = task.id, %text, "the gateway does not report the status of a refund");
                    Err(Failure::temporary(text))
                }
                asked => ours(task, asked.map_err(steps::failure)?),
            }
        })
        .await?;
        pause = (pause * 2).min(MAX_PAUSE);
    }
    Ok(refund)
}

/// The gateway's refund, if it matches this one.
fn ours(task: &RefundTask, refund: gateway::Refund) -> Result<gateway::Refund, Failure> {
    if refund.reference == task.id && refund.amount == task.refund.amount {
        return Ok(refund);
    }
    let text = format!(
        "the gateway returned {} of {} for {}",
        refund.id, refund.amount, refund.reference
    );
    tracing::error!(refund = task.id, text);
    Err(Failure::temporary(text))
}

fn credited(task: &RefundTask) -> Credited {
    Credited {
        id: task.id.clone(),
        invoice: task.refund.invoice.clone(),
        amount: task.refund.amount,
        reason: task.refund.reason.clone(),
    }
}

/// Adds it to the subscription as credit. Returns why it failed, if it did.
async fn grant(attempt: &Attempt, task: &RefundTask) -> Result<Option<String>, Failure> {
    let subscription = attempt.env().object::<Subscription>();
    let subscription = subscription.get_by_name(&task.refund.subscription);
    match subscription.grant(credited(task)).await {
        Ok(_) => Ok(None),
        Err(BillingError::Object(error)) => Err(error.into()),
        Err(refused) => Ok(Some(refused.to_string())),
    }
}

/// Writes the result, and reports it.
async fn report(
    attempt: &Attempt,
    task: &RefundTask,
    failure: Option<String>,
) -> Result<(), Failure> {
    let env = attempt.env();
    let settled = RefundSettled {
        refund: None,
        failure: failure.clone(),
    };
    let outcome = if failure.is_none() {
        "succeeded"
    } else {
        "failed"
    };
    write(attempt, &task.id, "settle", outcome, &settled).await?;
    let intent = env.object::<PaymentIntent>();
    let intent = intent.get_by_name(&task.refund.payment_intent);
    let end = RefundEnd {
        refund: task.id.clone(),
        failure: failure.clone(),
    };
    intent.end_refund(end).await.map_err(steps::refused)?;
    let invoice = env.object::<Invoice>();
    let invoice = invoice.get_by_name(&task.refund.invoice);
    if failure.is_none() {
        let view = invoice.get_state().await.map_err(steps::refused)?;
        let live: states::Invoice = view.live().map_err(steps::refused)?;
        let intent = &task.refund.payment_intent;
        // Money that was not owed was not the price of a period.
        let is_late = NewRefund::is_late(&task.id, intent);
        if live.paid_by.as_ref() != Some(intent) || is_late {
            return Ok(());
        }
        let subscription = env.object::<Subscription>();
        let subscription = subscription.get_by_name(&task.refund.subscription);
        let told = subscription.returned(credited(task)).await;
        told.map_err(steps::refused)?;
    } else if let Some(note) = &task.refund.credit_note {
        let told = invoice.withdraw_note(note.clone()).await;
        told.map_err(steps::refused)?;
    }
    Ok(())
}

/// Writes an outcome to the refund's chain, unless it is there.
async fn write(
    attempt: &Attempt,
    id: &str,
    action: &str,
    outcome: &str,
    data: &RefundSettled,
) -> Result<(), Failure> {
    let refund = attempt.env().object::<Refund>().get_by_name(id);
    let data = serde_json::to_value(data)?;
    let written = refund.transition_once(action.to_owned(), outcome.to_owned(), data);
    written.await.map_err(steps::refused)?;
    Ok(())
}
