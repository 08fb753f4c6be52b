//! Handles the gateway's webhooks.

use abide::workflow::{EventKey, WorkflowError, Workflows};
use abide::{Env, Result};

use super::{Payment, Refunding, is_late, steps::Wake};
use crate::gateway::{GatewayEvent, RefundEvent};

/// The name of the event that a payment waits for.
pub(super) const EVENT: &str = "gateway";

/// Passes on a gateway webhook. Duplicates have no further effect; a late one is not needed.
pub async fn handle_event(env: &Env, event: &GatewayEvent) -> Result<()> {
    match send_once(env, event).await {
        Err(late) if is_late(&late) => Ok(()),
        heard => Ok(heard?),
    }
}

async fn send_once(env: &Env, event: &GatewayEvent) -> Result<(), WorkflowError> {
    let payments = Workflows::<Payment>::new(env);
    let intent = &event.payment.reference;
    let once = payments.send_event_once(intent, EventKey(&event.id), EVENT, event);
    once.await
}

/// The same for a refund.
pub async fn handle_refund_event(env: &Env, event: &RefundEvent) -> Result<()> {
    let refunds = Workflows::<Refunding>::new(env);
    let refund = &event.refund.reference;
    match refunds
        .send_event_once(refund, EventKey(&event.id), EVENT, event)
        .await
    {
        Err(late) if is_late(&late) => Ok(()),
        heard => Ok(heard?),
    }
}

/// Cancels a payment that waits for its customer, because they pay with another card. If the customer was faster, it is
/// paid.
pub(crate) async fn replace_card(env: &Env, intent: &str, card: &str) -> Result<()> {
    let payments = Workflows::<Payment>::new(env);
    let key = format!("{intent} {card}");
    let wake = Wake { replaced: true };
    match payments
        .send_event_once(intent, EventKey(&key), EVENT, &wake)
        .await
    {
        Err(late) if is_late(&late) => Ok(()),
        sent => Ok(sent?),
    }
}
