//! What a gateway's webhooks say.

use abide::{Env, Result};
use abide_patterns::workflow::Workflows;

use super::{Payment, is_late};
use crate::{
    broken::{Variant, broken},
    gateway::GatewayEvent,
};

/// The name of the event that a payment waits for.
pub(super) const EVENT: &str = "gateway";

/// Passes on what a gateway's webhook has said. However often it comes it is heard once; one that comes late is not needed.
pub async fn hear(env: &Env, event: &GatewayEvent) -> Result<()> {
    let payments = Workflows::<Payment>::new(env);
    let intent = &event.payment.reference;
    let heard = if broken(Variant::EventForgotten) {
        Ok(())
    } else if broken(Variant::EventHeardTwice) {
        payments.send_event(intent, EVENT, event).await
    } else {
        let once = payments.send_event_once(intent, &event.id, EVENT, event);
        once.await
    };
    match heard {
        Err(late) if is_late(&late) => Ok(()),
        heard => Ok(heard?),
    }
}
