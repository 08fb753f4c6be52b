//! Requests that come at the same time, and of which one can be granted.

use std::time::Duration;

use abide::workflow::{WorkflowError, Workflows};
use abide_harness::run;
use billing::{
    BillingError, Money,
    payment::Refunding,
    resources::{NewPaymentRefund, PaymentIntent},
    states::{self, RefundTo},
};

use crate::payment::{
    gateway::Luck,
    world::{INTENT, SUBSCRIPTION, World},
};

/// Refunds of the whole payment that are requested together.
const REQUESTS: usize = 6;

fn everything(refund: &str) -> NewPaymentRefund {
    NewPaymentRefund {
        refund: refund.into(),
        amount: None,
        to: RefundTo::Card,
        reason: None,
        credit_note: None,
    }
}

async fn intent(world: &World) -> states::PaymentIntent {
    serde_json::from_value(world.show(INTENT).await.data).unwrap()
}

/// A payment whose refunds fail at the gateway, and the refunds of it that were granted and refused.
async fn raced() -> (World, Vec<String>, Vec<String>) {
    let world = World::new(Luck::None).await;
    world.subscribe("card_unrefundable").await;
    world.becomes(SUBSCRIPTION, "active").await;
    let intents = world.env().object::<PaymentIntent>();
    let ids: Vec<String> = (0..REQUESTS).map(|number| format!("re_{number}")).collect();
    let asked: Vec<_> = ids
        .iter()
        .map(|id| intents.get_by_name(INTENT).refund(everything(id)))
        .collect();
    let (mut granted, mut refused) = (Vec::new(), Vec::new());
    for (id, answer) in ids.into_iter().zip(asked) {
        match answer.await {
            Ok(_) => granted.push(id),
            Err(_) => refused.push(id),
        }
    }
    (world, granted, refused)
}

#[test]
fn of_concurrent_refunds_one_is_granted_and_the_others_leave_nothing() {
    run(async {
        let (world, granted, refused) = raced().await;
        assert_eq!((granted.len(), refused.len()), (1, REQUESTS - 1));
        world.becomes(&granted[0], "failed").await;
        world.passes(Duration::from_hours(36)).await;
        for id in &refused {
            let status = Workflows::<Refunding>::new(world.env()).status(id).await;
            assert!(
                matches!(status, Err(WorkflowError::NotFound { .. })),
                "{id}: {status:?}"
            );
        }
        assert_eq!(intent(&world).await.refunds.len(), 1);
    });
}

#[test]
fn a_refused_refund_that_is_requested_again_has_a_result() {
    run(async {
        let (world, granted, refused) = raced().await;
        world.becomes(&granted[0], "failed").await;
        world.passes(Duration::from_hours(36)).await;
        let again = world.env().object::<PaymentIntent>().get_by_name(INTENT);
        let again: Result<_, BillingError> = again.refund(everything(&refused[0])).await;
        again.unwrap();
        world.passes(Duration::from_hours(60)).await;
        let intent = intent(&world).await;
        let open = |refund: &&states::Refunded| !refund.succeeded && refund.failure.is_none();
        assert_eq!(
            intent.refunds.values().filter(open).count(),
            0,
            "{:?}",
            intent.refunds
        );
        let left = Money::new(1_000, "EUR".parse().unwrap()).unwrap();
        assert_eq!(intent.refundable().unwrap(), left);
    });
}
