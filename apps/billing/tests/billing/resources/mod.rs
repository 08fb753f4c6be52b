//! The resources, on a node on a disk in memory with a clock that stands still.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod world;

use std::time::Duration;

use abide::outcomes::Until;
use billing::{
    BillingError,
    resources::{Customer, Invoice, PaymentIntent, Price, Product, Subscription},
    states::{Moment, NewIntent, PaymentResult, Verdict},
};
use serde_json::{Value, json};

use crate::resources::world::{World, euro, of, result, tea};

#[tokio::test]
async fn each_resource_and_its_history_survive_a_kill() {
    let world = World::new();
    let draft = world.billed().await;
    world.invoice(0).create(draft).await.unwrap();
    let intent = world.invoice(0).begin_attempt(1).await.unwrap().unwrap();
    let intents = world.node.env().object::<PaymentIntent>();
    let first = intents.get_by_name("pi_in_sub_1_0_1");
    first.create(intent).await.unwrap();
    let world = world.killed();
    for (id, state, outcomes) in [
        ("prod_tea", "active", 1),
        ("price_1000", "active", 1),
        // Created, and told of the subscription.
        ("cus_ada", "active", 2),
        ("sub_1", "incomplete", 3),
        ("in_sub_1_0", "open", 3),
        ("pi_in_sub_1_0_1", "requires_payment_method", 1),
    ] {
        let view = of!(world, id, get_state()).unwrap();
        assert_eq!((view.state.as_str(), view.seq), (state, outcomes), "{id}");
        assert_eq!(of!(world, id, check()).unwrap(), outcomes, "{id}");
        let history = of!(world, id, get_history(0, 10)).unwrap();
        assert_eq!(history.last().unwrap().entry.seq, outcomes, "{id}");
        assert_eq!(history.last().unwrap().state, state, "{id}");
        let later = of!(world, id, get_history(outcomes - 1, 10)).unwrap();
        assert_eq!(later[..], history[history.len() - 1..], "{id}");
        let row = of!(world, id, get_row()).unwrap();
        assert_eq!((row.id.as_str(), row.seq), (id, outcomes));
        assert_eq!(row.data, view.data);
    }
    let row = of!(world, "in_sub_1_0", get_row()).unwrap();
    assert_eq!(row.customer.as_deref(), Some("cus_ada"));
    assert_eq!(row.subscription.as_deref(), Some("sub_1"));
    assert_eq!(
        (row.amount, row.currency.as_deref()),
        (Some(1_000), Some("EUR"))
    );
    assert_eq!((row.attempts, row.failures), (1, 0));
    assert_eq!(row.created_month, world.now().to_string()[..7]);
}

#[tokio::test]
async fn what_was_not_created_is_not_there_and_nothing_is_created_twice() {
    let world = World::new();
    let missing = of!(world, "prod_tea", get_state()).unwrap_err();
    assert_eq!(missing.to_string(), "There is no product “prod_tea”.");
    world.stocked().await;
    let again = json!({"name": "Tea"});
    let refused = world
        .try_write("prod_tea", "create", "created", again)
        .await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the product is `active` and does not allow `create` with `created`: allowed are `update` with `updated`, `delete` with `deleted`, `annotate` with `annotated`, `restore` with `restored`, `copy` with `copied`"
    );
    let nameless = json!({"name": ""});
    let refused = world
        .try_write("prod_tea", "update", "updated", nameless)
        .await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("A product's name")
    );
    assert_eq!(of!(world, "prod_tea", get_state()).unwrap().seq, 1);
}

#[tokio::test]
async fn a_subscription_needs_an_existing_customer_and_price() {
    let world = World::new();
    let told = async || {
        let created = world.subscription().create(tea(0)).await;
        created.unwrap_err().to_string()
    };
    assert_eq!(told().await, "There is no customer “cus_ada”.");
    world.stocked().await;
    world
        .write("prod_tea", "delete", "deleted", Value::Null)
        .await;
    assert_eq!(told().await, "There is no product “prod_tea”.");
    world
        .write("price_1000", "delete", "deleted", Value::Null)
        .await;
    assert_eq!(told().await, "There is no price “price_1000”.");
    let mut much = tea(0);
    much.price = "price_3000".into();
    much.trial_days = 731;
    let refused = world.subscription().create(much).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .starts_with("A trial may have at most 730 days")
    );
    let missing = world.subscription().get_state().await.unwrap_err();
    assert!(matches!(missing, BillingError::NotFound { .. }));
}

#[tokio::test]
async fn a_trial_entitles_until_it_ends() {
    let world = World::new();
    world.stocked().await;
    let end = world.now().plus_days(14);
    let made = world.subscription().create(tea(14)).await.unwrap();
    assert_eq!(made.state, "trialing");
    let entitlement = world.subscription().entitlement().await.unwrap();
    assert!(entitlement.entitled);
    assert_eq!(entitlement.until, Some(end));
    let cancelled = world.subscription().cancel(true).await.unwrap();
    assert_eq!(cancelled.data["cancel_at"], json!(end));
    world.subscription().keep().await.unwrap();
    let refused = world.subscription().keep().await.unwrap_err();
    assert!(refused.to_string().contains("No end"), "{refused}");
    let ended = world.subscription().cancel(false).await.unwrap();
    assert_eq!(ended.state, "canceled");
    let entitlement = world.subscription().entitlement().await.unwrap();
    assert!(!entitlement.entitled && entitlement.until.is_none());
}

#[tokio::test]
async fn an_invoice_is_created_once_for_a_period_and_for_nothing_else() {
    let world = World::new();
    let draft = world.draft(0, 1_000);
    let first = world.invoice(0).create(draft.clone()).await.unwrap();
    assert_eq!((first.state.as_str(), first.seq), ("open", 2));
    let again = world.invoice(0).create(draft).await.unwrap();
    assert_eq!(again, first);
    let other = world.invoice(0).create(world.draft(0, 2_000)).await;
    assert!(
        other
            .unwrap_err()
            .to_string()
            .contains("already exists with different content")
    );
    let elsewhere = world.invoice(1).create(world.draft(2, 2_000)).await;
    assert!(elsewhere.is_err());
    let nothing = world.invoice(3).create(world.draft(3, 0)).await.unwrap();
    assert_eq!(nothing.state, "paid");
    assert_eq!(world.invoice(3).begin_attempt(1).await.unwrap(), None);
}

#[tokio::test]
async fn a_payment_result_is_heard_once_by_the_invoice_and_by_the_subscription() {
    let world = World::new();
    let draft = world.billed().await;
    let invoice = world.invoice(0);
    invoice.create(draft).await.unwrap();
    for _ in 0..2 {
        let intent = invoice.begin_attempt(1).await.unwrap().unwrap();
        let wanted = NewIntent {
            invoice: "in_sub_1_0".into(),
            subscription: "sub_1".into(),
            customer: "cus_ada".into(),
            attempt: 1,
            amount: euro(1_000),
        };
        assert_eq!(intent, wanted);
    }
    assert!(invoice.begin_attempt(3).await.is_err());

    let report = async |result: PaymentResult| {
        let heard = invoice.report_payment_result(result.clone()).await.unwrap();
        let decided = world
            .subscription()
            .report_payment_result(result)
            .await
            .unwrap();
        (heard, decided)
    };
    let asked = report(result(1, Verdict::RequiresAction)).await;
    assert_eq!(report(result(1, Verdict::RequiresAction)).await, asked);
    let failed = report(result(1, Verdict::Failed)).await;
    assert_eq!(
        (failed.0.state.as_str(), failed.1.state.as_str()),
        ("open", "incomplete")
    );
    for verdict in [Verdict::Failed, Verdict::RequiresAction] {
        assert_eq!(report(result(1, verdict)).await, failed);
    }
    // The second attempt begins on both sides.
    let attempt = json!({"invoice": "in_sub_1_0", "attempt": 2});
    world.write("sub_1", "retry", "attempted", attempt).await;
    invoice.begin_attempt(2).await.unwrap();
    let paid = report(result(2, Verdict::Paid)).await;
    assert_eq!(
        (paid.0.state.as_str(), paid.1.state.as_str()),
        ("paid", "active")
    );
    assert_eq!(paid.0.data["paid_by"], "pi_in_sub_1_0_2");
    for (attempt, verdict) in [
        (2, Verdict::Paid),
        (2, Verdict::Failed),
        (1, Verdict::Failed),
    ] {
        assert_eq!(report(result(attempt, verdict)).await, paid);
    }
    // Two payments of one invoice would be one too many.
    for _ in 0..2 {
        let twice = result(1, Verdict::Paid);
        let heard = invoice.report_payment_result(twice).await.unwrap();
        assert_eq!(heard.data["late"], json!(["pi_in_sub_1_0_1"]));
        assert_eq!(heard.seq, paid.0.seq + 1);
    }
    for id in ["sub_1", "in_sub_1_0"] {
        of!(world, id, check()).unwrap();
    }
}

#[tokio::test]
async fn results_of_unknown_payments_are_refused() {
    let world = World::new();
    let draft = world.billed().await;
    world.invoice(0).create(draft).await.unwrap();
    world.invoice(0).begin_attempt(1).await.unwrap();
    let mut wrong = vec![result(2, Verdict::Paid), result(0, Verdict::Failed)];
    let mut foreign = result(1, Verdict::Paid);
    foreign.invoice = "in_sub_2_0".into();
    wrong.push(foreign);
    let mut cheap = result(1, Verdict::Paid);
    cheap.amount = euro(1);
    wrong.push(cheap);
    for wrong in wrong {
        let heard = world.invoice(0).report_payment_result(wrong.clone()).await;
        assert!(heard.is_err(), "{wrong:?}");
        let heard = world
            .subscription()
            .report_payment_result(wrong.clone())
            .await;
        assert!(heard.is_err(), "{wrong:?}");
    }
    assert_eq!(world.state("sub_1").await, "incomplete");
    assert_eq!(world.state("in_sub_1_0").await, "open");
}

#[tokio::test]
async fn a_change_of_plan_waits_for_the_next_invoice_and_a_pause_ends_service() {
    let world = World::new();
    let draft = world.billed().await;
    let (start, end) = (draft.period.start, draft.period.end);
    let paid = world
        .subscription()
        .report_payment_result(result(1, Verdict::Paid));
    assert_eq!(paid.await.unwrap().state, "active");
    world
        .clock
        .advance(Duration::from_millis((end.0 - start.0).unsigned_abs() / 2));
    let changed = world
        .subscription()
        .change("price_3000".into(), Some(1))
        .await;
    let lines = &changed.unwrap().data["pending"];
    assert_eq!(
        (&lines[0]["amount"], &lines[1]["amount"]),
        (&json!(euro(-500)), &json!(euro(1_500)))
    );
    world.subscription().pause().await.unwrap();
    let entitlement = world.subscription().entitlement().await.unwrap();
    assert!(!entitlement.entitled);
    world.subscription().cancel(true).await.unwrap();
    world.subscription().keep().await.unwrap();
    let resumed = world.subscription().resume().await.unwrap();
    assert_eq!(resumed.state, "active");

    let before = world
        .subscription()
        .get_state_at(Until::Time(start.0))
        .await;
    assert_eq!(before.unwrap().state, "active");
    let first = world.subscription().get_state_at(Until::Seq(1)).await;
    assert_eq!(first.unwrap().state, "incomplete");
    let replay = world.subscription().replay(Until::End).await.unwrap();
    assert!(replay.contains("collect / settled -> active"), "{replay}");
}

#[tokio::test]
async fn a_subscription_is_not_moved_to_where_its_machine_does_not_lead() {
    let world = World::new();
    world.billed().await;
    let at = Moment { at: world.now() };
    let at = serde_json::to_value(at).unwrap();
    let refused = world.try_write("sub_1", "end_trial", "ended", at).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .starts_with("the subscription is `incomplete`")
    );
    let twice = json!({"draft": world.draft(0, 1_000)});
    let refused = world.try_write("sub_1", "bill", "invoiced", twice).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("The next period to bill is 1, not 0.")
    );
    of!(world, "sub_1", check()).unwrap();
}

#[tokio::test]
async fn overdue_invoices_are_paid_by_hand_one_attempt_at_a_time() {
    let world = World::new();
    world.billed().await;
    world.report(0, 1, Verdict::Paid).await;
    world.clock.advance(Duration::from_hours(31 * 24));
    world.begun(1, 1).await;
    // One that has not ended is the one that is asked for.
    world.invoice(1).pay().await.unwrap();
    let owed = async |what: &str| {
        let view = of!(world, "sub_1", get_state()).unwrap();
        view.data["owed"]["in_sub_1_1"][what].clone()
    };
    assert_eq!(owed("attempts").await, 1);
    world.report(1, 1, Verdict::Failed).await;
    assert_eq!(world.state("sub_1").await, "past_due");
    for _ in 0..3 {
        world.invoice(1).pay().await.unwrap();
    }
    assert_eq!(owed("attempts").await, 2);
    world.begun(1, 2).await;
    world.report(1, 2, Verdict::Failed).await;
    world
        .write("in_sub_1_1", "give_up", "marked", Value::Null)
        .await;
    world.invoice(1).pay().await.unwrap();
    world.begun(1, 3).await;
    world.report(1, 3, Verdict::Paid).await;
    assert_eq!(world.state("in_sub_1_1").await, "paid");
    assert_eq!(world.state("sub_1").await, "active");
    let refused = world.invoice(1).pay().await.unwrap_err();
    assert!(
        refused.to_string().contains("the invoice is `paid`"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_unpayable_invoice_is_not_owed_nor_voided_while_being_paid() {
    let world = World::new();
    world.billed().await;
    let refused = async |invoice: u32| {
        let voided = world.invoice(invoice).void().await;
        voided.unwrap_err().to_string()
    };
    assert!(refused(0).await.contains("is in progress"));
    world.report(0, 1, Verdict::Failed).await;
    assert!(refused(0).await.contains("end the subscription instead"));
    world
        .write(
            "sub_1",
            "retry",
            "attempted",
            json!({ "invoice": "in_sub_1_0", "attempt": 2 }),
        )
        .await;
    world.begun(0, 2).await;
    world.report(0, 2, Verdict::Paid).await;
    assert!(refused(0).await.contains("the invoice is `paid`"));

    world.clock.advance(Duration::from_hours(31 * 24));
    world.begun(1, 1).await;
    assert!(refused(1).await.contains("is in progress"));
    world.report(1, 1, Verdict::Failed).await;
    assert_eq!(world.state("sub_1").await, "past_due");
    for _ in 0..2 {
        let voided = world.invoice(1).void().await.unwrap();
        assert_eq!(voided.state, "void");
        let view = of!(world, "sub_1", get_state()).unwrap();
        assert_eq!(
            (view.state.as_str(), &view.data["owed"]),
            ("active", &json!({}))
        );
    }
    for id in ["sub_1", "in_sub_1_1"] {
        of!(world, id, check()).unwrap();
    }
}

#[tokio::test]
async fn a_subscription_being_created_again_is_not_forgotten() {
    let world = World::new();
    world.stocked().await;
    let customer = world.node.env().object::<Customer>().get_by_name("cus_ada");
    let subscribe = async || customer.subscribe("sub_slow".into()).await.unwrap();
    subscribe().await;
    // The first attempt was lost; the second one is under way when the customer is deleted.
    world.clock.advance(Duration::from_mins(11));
    subscribe().await;
    let refused = customer.delete().await.unwrap_err();
    assert!(refused.to_string().contains("sub_slow"), "{refused}");
    world.clock.advance(Duration::from_mins(11));
    assert_eq!(customer.delete().await.unwrap().state, "deleted");
}
