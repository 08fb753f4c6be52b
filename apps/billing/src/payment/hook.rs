//! What a gateway's webhooks say.

use abide::workflow::{WorkflowError, Workflows};
use abide::{Env, Result};

use super::{Payment, Refunding, is_late, steps::Wake};
use crate::{
    broken::{Variant, broken},
    gateway::{GatewayEvent, RefundEvent},
};

/// The name of the event that a payment waits for.
pub(super) const EVENT: &str = "gateway";

/// Passes on what a gateway's webhook has said. However often it comes it is heard once; one that comes late is not needed.
pub async fn hear(env: &Env, event: &GatewayEvent) -> Result<()> {
    if broken(Variant::EventForgotten) {
        return Ok(());
    }
    match send_once(env, event).await {
        Err(late) if is_late(&late) => Ok(()),
        heard => Ok(heard?),
    }
}

async fn send_once(env: &Env, event: &GatewayEvent) -> Result<(), WorkflowError> {
    let payments = Workflows::<Payment>::new(env);
    let intent = &event.payment.reference;
    if broken(Variant::EventHeardTwice) {
        return payments.send_event(intent, EVENT, event).await;
    }
    let once = payments.send_event_once(intent, &event.id, EVENT, event);
    once.await
}

/// The same of a refund.
pub async fn hear_of_refund(env: &Env, event: &RefundEvent) -> Result<()> {
    let refunds = Workflows::<Refunding>::new(env);
    let refund = &event.refund.reference;
    match refunds
        .send_event_once(refund, &event.id, EVENT, event)
        .await
    {
        Err(late) if is_late(&late) => Ok(()),
        heard => Ok(heard?),
    }
}

/// Has a payment that waits for its customer taken back, because they pay with another card. If they were faster it is paid.
pub(crate) async fn replace_card(env: &Env, intent: &str, card: &str) -> Result<()> {
    let payments = Workflows::<Payment>::new(env);
    let key = format!("{intent} {card}");
    let wake = Wake { replaced: true };
    match payments.send_event_once(intent, &key, EVENT, &wake).await {
        Err(late) if is_late(&late) => Ok(()),
        sent => Ok(sent?),
    }
}
