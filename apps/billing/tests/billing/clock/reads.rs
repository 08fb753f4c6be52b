//! What a read shows after downtime: the state as of now.

use abide_harness::run;

use crate::clock::support::{World, date, monthly};

/// A monthly subscription that ended on 1 February, on a node that was down until March.
async fn ended_during_downtime() -> World {
    let world = World::starting("2026-01-01T00:00:00Z").await;
    world.subscribe(monthly(1_000)).await;
    world.until(date("2026-01-10T00:00:00Z")).await;
    world.subscription().cancel(true).await.unwrap();
    world.until(date("2026-01-20T00:00:00Z")).await;
    world.jump(date("2026-03-01T00:00:00Z"));
    world
}

#[test]
fn a_subscription_that_ended_during_downtime_is_not_entitled_after_it() {
    run(async {
        let world = ended_during_downtime().await;
        let entitlement = world.subscription().entitlement().await.unwrap();
        assert_eq!(
            (entitlement.entitled, &*entitlement.state),
            (false, "canceled")
        );
        world.check().await;
    });
}

#[test]
fn the_state_after_downtime_has_what_was_due_meanwhile() {
    run(async {
        let world = ended_during_downtime().await;
        assert_eq!(world.state().await, "canceled");
        world.check().await;
    });
}

#[test]
fn a_customer_whose_subscription_ended_during_downtime_can_be_deleted() {
    run(async {
        let world = ended_during_downtime().await;
        let deleted = world.customer().delete().await.unwrap();
        assert_eq!(deleted.state, "deleted");
    });
}
