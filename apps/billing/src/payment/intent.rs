//! The object calls of a payment.

use abide::Env;
use abide::workflow::{Attempt, Failure};
use serde::Serialize;

use super::{Order, steps::refused as failure};
use crate::{
    BillingError, Money,
    resources::{Customer, Invoice, NewPaymentRefund, PaymentIntent, Subscription},
    states::{self, PaymentResult, RefundTo, SetPaymentMethod, Verdict},
};

/// Creates the intent, and returns the payment method, if the customer has one.
pub(super) async fn create(attempt: Attempt, order: &Order) -> Result<Option<String>, Failure> {
    let env = attempt.env();
    let intent = env.object::<PaymentIntent>().get_by_name(&order.id);
    intent.create(order.intent.clone()).await.map_err(failure)?;
    let customer = env.object::<Customer>().get_by_name(&order.intent.customer);
    let customer = customer.get_state().await.map_err(failure)?;
    if customer.state != "active" {
        return Ok(None);
    }
    let customer: states::Customer = customer.live().map_err(failure)?;
    let Some(payment_method) = customer.payment_method else {
        return Ok(None);
    };
    let data = SetPaymentMethod {
        payment_method: payment_method.clone(),
    };
    write(&attempt, order, "attach", "attached", &data).await?;
    Ok(Some(payment_method))
}

/// Writes an outcome to the intent's chain, unless it is there: no payment has the same outcome of an action twice.
pub(super) async fn write(
    attempt: &Attempt,
    order: &Order,
    action: &str,
    outcome: &str,
    data: &impl Serialize,
) -> Result<(), Failure> {
    let data = serde_json::to_value(data)?;
    let intent = attempt.env().object::<PaymentIntent>();
    let intent = intent.get_by_name(&order.id);
    let written = intent.transition_once(action.to_owned(), outcome.to_owned(), data);
    written.await.map_err(failure)?;
    Ok(())
}

/// Reports the result of the payment to the invoice, and then to the subscription. Returns the part that must be
/// refunded, because nothing, or less, was owed when the money arrived.
pub(super) async fn report(
    attempt: Attempt,
    result: &PaymentResult,
    order: &Order,
) -> Result<Option<Money>, Failure> {
    let env = attempt.env();
    let invoice = env.object::<Invoice>().get_by_name(&result.invoice);
    let told = invoice.report_payment_result(result.clone()).await;
    let invoice: states::Invoice = told.and_then(|view| view.live()).map_err(failure)?;
    let id = &order.intent.subscription;
    let subscription = env.object::<Subscription>().get_by_name(id);
    let told = subscription.report_payment_result(result.clone()).await;
    let subscription: states::Subscription = told.and_then(|view| view.live()).map_err(failure)?;
    Ok(match result.verdict {
        Verdict::Paid if subscription.gives_back(id, &result.invoice) => Some(result.amount),
        Verdict::Paid => invoice.gives_back(result),
        _ => None,
    })
}

/// Refunds money that was not owed, or the rest of it. Repeating it changes nothing.
pub(crate) async fn give_back(
    env: &Env,
    intent: &str,
    refund: String,
    amount: Money,
) -> Result<(), BillingError> {
    let intent = env.object::<PaymentIntent>().get_by_name(intent);
    let live: states::PaymentIntent = intent.get_state().await?.live()?;
    let left = live.refundable()?;
    // Some of it may have been refunded by hand.
    let amount = if left.minus(amount).is_ok_and(Money::is_negative) {
        left
    } else {
        amount
    };
    if live.refunds.contains_key(&refund) || amount.is_zero() {
        return Ok(());
    }
    let wanted = NewPaymentRefund {
        refund,
        amount: Some(amount),
        to: RefundTo::Card,
        reason: Some("Nothing was owed any more when the money came".to_owned()),
        credit_note: None,
    };
    intent.refund(wanted).await?;
    Ok(())
}
