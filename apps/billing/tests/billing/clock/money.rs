//! No customer is served for nothing, and none pays for nothing.

use abide::schedule::Phase;
use abide_harness::run;
use billing::{
    Money,
    resources::NewSubscription,
    states::{Credited, Draft, Verdict},
};

use crate::clock::support::{DAY, HOUR, World, date, monthly};

/// What was paid of all invoices, and how much their lines add up to.
async fn paid(world: &World) -> i64 {
    let mut paid = 0;
    for number in world.billed().await {
        let invoice = world.invoice(number).await.unwrap();
        assert_eq!(invoice.state, "paid", "{number}");
        paid += world.due(number).await;
    }
    paid
}

/// A world that begins with the year, and a monthly subscription in it.
async fn subscribed(price: i64) -> World {
    let world = World::starting("2026-01-01T00:00:00Z").await;
    world.subscribe(monthly(price)).await;
    world
}

#[test]
fn pauses_over_each_boundary_put_no_payment_off() {
    run(async {
        let world = World::starting("2026-01-15T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.until(date("2026-01-15T01:00:00Z")).await;
        for month in 2..=12 {
            world
                .until(date(&format!("2026-{month:02}-14T23:59:00Z")))
                .await;
            world.subscription().pause().await.unwrap();
            world
                .until(date(&format!("2026-{month:02}-15T00:01:00Z")))
                .await;
            world.subscription().resume().await.unwrap();
        }
        world.until(date("2027-01-14T00:00:00Z")).await;
        world.subscription().cancel(true).await.unwrap();
        world.until(date("2027-03-01T00:00:00Z")).await;
        // Twelve months, less two minutes at each of eleven boundaries.
        let paid = paid(&world).await;
        assert!((11_990..=12_000).contains(&paid), "{paid}");
        world.check().await;
    });
}

#[test]
fn the_cost_of_a_change_is_billed_when_the_subscription_ends() {
    run(async {
        for at_period_end in [true, false] {
            let world = subscribed(1_000).await;
            world.until(date("2026-01-01T01:00:00Z")).await;
            let change = world.subscription().change("price_3000".into(), Some(10));
            change.await.unwrap();
            world.until(date("2026-01-31T23:00:00Z")).await;
            let cancel = world.subscription().cancel(at_period_end);
            cancel.await.unwrap();
            world.until(date("2026-03-15T00:00:00Z")).await;
            assert_eq!(world.state().await, "canceled");
            let paid = paid(&world).await;
            assert!((29_950..=30_000).contains(&paid), "{paid}");
            world.check().await;
        }
    });
}

#[test]
fn what_a_change_costs_is_billed_though_the_next_period_is_not() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-01T01:00:00Z")).await;
        let change = world.subscription().change("price_3000".into(), Some(10));
        change.await.unwrap();
        world.until(date("2026-01-31T23:00:00Z")).await;
        world.subscription().pause().await.unwrap();
        world.until(date("2026-03-15T00:00:00Z")).await;
        let paid = paid(&world).await;
        assert!((29_900..=30_000).contains(&paid), "{paid}");
        world.check().await;
    });
}

#[test]
fn a_pause_inside_a_period_is_not_billed() {
    run(async {
        let world = subscribed(3_000).await;
        world.until(date("2026-01-11T00:00:00Z")).await;
        world.subscription().pause().await.unwrap();
        world.until(date("2026-01-21T00:00:00Z")).await;
        world.subscription().resume().await.unwrap();
        world.until(date("2026-02-02T00:00:00Z")).await;
        // 21 of January's 31 days, and February.
        assert_eq!(paid(&world).await, 2_033 + 3_000);
        world.check().await;
    });
}

#[test]
fn a_change_that_could_not_be_billed_is_refused() {
    run(async {
        let world = World::starting("2026-01-01T00:00:00Z").await;
        world.price("price_huge", Money::MAX_AMOUNT, "month").await;
        world.subscribe(monthly(0)).await;
        world.until(date("2026-01-01T01:00:00Z")).await;
        let change = world.subscription().change("price_huge".into(), Some(1));
        assert!(change.await.is_err());
        world.until(date("2026-06-01T01:00:00Z")).await;
        assert_eq!(world.billed().await, [0, 1, 2, 3, 4, 5]);
        world.check().await;
    });
}

#[test]
fn an_invoice_that_was_written_off_is_not_charged_again_and_can_be_paid() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-31T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-02-01T01:00:00Z")).await;
        world.give_up(1).await;
        let before = world.bank.begun().len();
        world.bank.answer(|_| Verdict::Paid);
        world.until(date("2026-02-14T00:00:00Z")).await;
        assert_eq!(world.bank.begun().len(), before);
        assert_eq!(world.invoice(1).await.unwrap().state, "uncollectible");
        // Service ends with the grace, and continues when the customer pays after all.
        world.until(date("2026-02-16T00:00:00Z")).await;
        assert!(!world.is_entitled().await);
        world.pays(1, 2).await;
        world.until(date("2026-02-16T01:00:00Z")).await;
        assert_eq!(world.invoice(1).await.unwrap().state, "paid");
        assert!(world.is_entitled().await);
        world.check().await;
    });
}

#[test]
fn an_invoice_that_is_voided_after_a_downgrade_leaves_no_credit() {
    run(async {
        let world = subscribed(3_000).await;
        world.until(date("2026-01-31T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-02-01T00:10:00Z")).await;
        let subscription = world.subscription();
        let change = |price: &str| subscription.change(price.to_owned(), Some(1));
        change("price_1000").await.unwrap();
        subscription.void("in_sub_1_1".into()).await.unwrap();
        // Nor does a change after it.
        change("price_3000").await.unwrap();
        change("price_1000").await.unwrap();
        world.bank.answer(|_| Verdict::Paid);
        world.until(date("2026-05-01T01:00:00Z")).await;
        for number in 2..=4 {
            assert_eq!(world.due(number).await, 1_000, "{number}");
        }
        world.check().await;
    });
}

#[test]
fn who_comes_back_with_an_old_debt_has_the_days_of_dunning() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-31T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::RequiresAction);
        world.until(date("2026-02-01T00:10:00Z")).await;
        world.subscription().pause().await.unwrap();
        world.until(date("2026-02-01T22:10:00Z")).await;
        world.reports(1, 1, Verdict::Failed).await;
        world.until(date("2026-04-10T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        let begun = world.bank.begun().len();
        world.subscription().resume().await.unwrap();
        world.until(date("2026-04-23T23:00:00Z")).await;
        assert!(world.is_entitled().await, "for the days of grace");
        let days: Vec<i64> = world.bank.begun()[begun..]
            .iter()
            .map(|payment| (payment.at.0 - date("2026-04-10T00:00:00Z").0) / DAY)
            .collect();
        assert_eq!(days, [0, 1, 3, 5, 7]);
        world.until(date("2026-04-24T00:10:00Z")).await;
        assert!(!world.is_entitled().await);
    });
}

#[test]
fn retries_that_were_missed_are_a_day_apart() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-31T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-02-01T00:10:00Z")).await;
        world.jump(date("2026-02-10T00:00:00Z"));
        let world = world.killed().await;
        world.until(date("2026-02-14T00:10:00Z")).await;
        let begun = world.bank.begun();
        let times: Vec<i64> = begun.iter().skip(2).map(|payment| payment.at.0).collect();
        assert_eq!(times.len(), 4, "{times:?}");
        assert!(
            times.windows(2).all(|two| two[1] - two[0] >= DAY),
            "{times:?}"
        );
    });
}

#[test]
fn what_is_said_of_service_does_not_go_beyond_the_grace() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-31T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-02-01T00:10:00Z")).await;
        let entitlement = world.subscription().entitlement().await.unwrap();
        let until = entitlement.until.unwrap();
        assert!(until < date("2026-02-15T00:10:00Z"), "{until}");
    });
}

#[test]
fn requests_do_not_overtake_work_missed_during_downtime() {
    run(async {
        // Half of it is used when the node comes back.
        for what in ["pause", "change"] {
            let world = subscribed(1_000).await;
            world.until(date("2026-01-31T00:00:00Z")).await;
            world.jump(date("2026-02-15T00:00:00Z"));
            let subscription = world.subscription();
            let done = match what {
                "pause" => subscription.pause().await,
                _ => subscription.change("price_3000".into(), Some(1)).await,
            };
            done.unwrap();
            world.until(date("2026-02-15T01:00:00Z")).await;
            assert_eq!(world.billed().await, [0, 1], "{what}");
            assert_eq!(world.due(1).await, 1_000, "at the price of before");
            world.check().await;
        }
    });
}

#[test]
fn a_paused_subscription_can_take_its_end_back() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-10T00:00:00Z")).await;
        world.subscription().cancel(true).await.unwrap();
        world.subscription().pause().await.unwrap();
        world.subscription().keep().await.unwrap();
        world.until(date("2026-02-02T00:00:00Z")).await;
        assert_eq!(world.state().await, "paused");
        world.subscription().cancel(true).await.unwrap();
        world.until(date("2026-03-02T00:00:00Z")).await;
        assert_eq!(world.state().await, "canceled");
    });
}

#[test]
fn a_customer_with_active_subscriptions_is_not_deleted() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-10T00:00:00Z")).await;
        let refused = world.customer().delete().await.unwrap_err();
        assert!(refused.to_string().contains("sub_1"), "{refused}");
        world.until(date("2026-02-01T01:00:00Z")).await;
        assert_eq!(world.invoice(1).await.unwrap().state, "paid");
        world.subscription().cancel(false).await.unwrap();
        let deleted = world.customer().delete().await.unwrap();
        assert_eq!(deleted.state, "deleted");
        world.customer().check().await.unwrap();
    });
}

#[test]
fn a_change_without_a_quantity_keeps_it() {
    run(async {
        let world = World::starting("2026-01-01T00:00:00Z").await;
        let seats = NewSubscription {
            quantity: 50,
            ..monthly(1_000)
        };
        world.subscribe(seats).await;
        world.until(date("2026-01-01T01:00:00Z")).await;
        let change = world.subscription().change("price_3000".into(), None);
        let view = change.await.unwrap();
        assert_eq!(view.data["plan"]["quantity"], 50);
    });
}

#[test]
fn what_a_trial_leads_to_is_paid_before_more_is_given() {
    run(async {
        let world = World::starting("2026-01-01T00:00:00Z").await;
        world.bank.answer(|_| Verdict::Failed);
        let trial = NewSubscription {
            trial_days: 7,
            ..monthly(1_000)
        };
        world.subscribe(trial).await;
        world.until(date("2026-01-08T01:00:00Z")).await;
        assert_eq!(world.state().await, "incomplete");
        assert!(!world.is_entitled().await);
        world.until(date("2026-01-08T23:30:00Z")).await;
        assert_eq!(world.state().await, "incomplete_expired");
        let after = world.bank.begun().len();
        world.until(date("2026-02-21T00:00:00Z")).await;
        assert_eq!(world.bank.begun().len(), after);
    });
}

#[test]
fn a_trial_that_ended_during_downtime_is_charged_afterwards() {
    run(async {
        let world = World::starting("2026-01-01T00:00:00Z").await;
        let trial = NewSubscription {
            trial_days: 7,
            ..monthly(1_000)
        };
        world.subscribe(trial).await;
        world.until(date("2026-01-07T00:00:00Z")).await;
        world.jump(date("2026-01-12T00:00:00Z"));
        let world = world.killed().await;
        world.until(date("2026-01-12T00:00:00Z").plus(HOUR)).await;
        assert_eq!(world.state().await, "active");
        let failed = |timer: &abide::schedule::Timer| timer.phase == Phase::Failed;
        assert!(!world.timers().await.iter().any(failed));
        world.check().await;
    });
}

#[test]
fn a_credit_note_is_kept_when_service_continues() {
    run(async {
        let world = subscribed(3_000).await;
        world.until(date("2026-02-08T00:00:00Z")).await;
        let subscription = world.subscription();
        // 400 of February's 3,000 went back to the card; three quarters of it are left.
        let credited = Credited {
            id: "re_1".into(),
            invoice: Draft::id_of("sub_1", 1),
            amount: Money::new(400, "EUR".parse().unwrap()).unwrap(),
            reason: None,
        };
        subscription.returned(credited).await.unwrap();
        for _ in 0..2 {
            subscription.pause().await.unwrap();
            subscription.resume().await.unwrap();
        }
        // A change to less and back again is nothing, either.
        for price in ["price_1000", "price_3000"] {
            let changed = subscription.change(price.into(), None).await;
            changed.unwrap();
        }
        assert_eq!(paid_for_march(&world).await, 3_000);
        // Who stops gives up what was given, and no more.
        let world = subscribed(3_000).await;
        world.until(date("2026-02-15T00:00:00Z")).await;
        let subscription = world.subscription();
        let credited = Credited {
            id: "re_1".into(),
            invoice: Draft::id_of("sub_1", 1),
            amount: Money::new(400, "EUR".parse().unwrap()).unwrap(),
            reason: None,
        };
        subscription.returned(credited).await.unwrap();
        let changed = subscription.change("price_1000".into(), None).await;
        changed.unwrap();
        // Half of the difference is 1,000, of which 400 were given.
        assert_eq!(paid_for_march(&world).await, 1_000 - 600);
    });
}

async fn paid_for_march(world: &World) -> i64 {
    world.until(date("2026-03-02T00:00:00Z")).await;
    world.check().await;
    world.due(2).await
}

#[test]
fn a_credit_note_for_what_waited_for_its_invoice_lessens_no_later_credit() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-02T00:00:00Z")).await;
        let subscription = world.subscription();
        let changed = subscription.change("price_3000".into(), None).await;
        changed.unwrap();
        world.until(date("2026-01-30T00:00:00Z")).await;
        subscription.pause().await.unwrap();
        world.bank.answer(|_| Verdict::Failed);
        // The invoice at the boundary has what the change has cost, and February is not billed.
        world.until(date("2026-02-02T00:00:00Z")).await;
        let due = world.due(1).await;
        assert!(due > 1_000, "{due}");
        let credited = Credited {
            id: "cn_1".into(),
            invoice: Draft::id_of("sub_1", 1),
            amount: Money::new(500, "EUR".parse().unwrap()).unwrap(),
            reason: None,
        };
        subscription.reduce(credited).await.unwrap();
        world.until(date("2026-02-10T00:00:00Z")).await;
        assert_eq!(world.due(1).await, due - 500);
        world.bank.answer(|_| Verdict::Paid);
        subscription.resume().await.unwrap();
        world.until(date("2026-02-15T00:00:00Z")).await;
        assert_eq!(world.state().await, "active");
        subscription.pause().await.unwrap();
        world.until(date("2026-03-02T00:00:00Z")).await;
        // Five of February's 28 days were served.
        assert_eq!(world.due(2).await, 536);
        world.check().await;
    });
}

#[test]
fn what_is_left_of_a_period_when_the_grace_ends_is_given_back() {
    run(async {
        let world = World::starting("2026-01-01T00:00:00Z").await;
        world.price("price_year", 36_500, "year").await;
        let yearly = NewSubscription {
            price: "price_year".into(),
            ..monthly(0)
        };
        world.subscribe(yearly).await;
        world.until(date("2026-12-31T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2027-04-11T00:00:00Z")).await;
        assert_eq!(world.state().await, "unpaid");
        world.pays(1, 6).await;
        world.until(date("2028-01-02T00:00:00Z")).await;
        // There was no service from January 15 to April 11, at 1.00 a day.
        assert_eq!(world.due(2).await, 36_500 - 8_600);
        world.check().await;
    });
}

#[test]
fn a_period_whose_invoice_is_voided_after_the_grace_is_free_to_its_end() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-31T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-02-20T00:00:00Z")).await;
        assert_eq!(world.state().await, "unpaid");
        let voided = world.subscription().void("in_sub_1_1".into()).await;
        voided.unwrap();
        assert!(world.is_entitled().await);
        world.bank.answer(|_| Verdict::Paid);
        world.until(date("2026-03-02T00:00:00Z")).await;
        assert_eq!(world.due(2).await, 1_000);
        world.check().await;
    });
}

#[test]
fn who_was_never_served_owes_nothing() {
    run(async {
        for ends in [false, true] {
            let world = World::starting("2026-01-01T00:00:00Z").await;
            world.bank.answer(|_| Verdict::Failed);
            world.subscribe(monthly(1_000)).await;
            world.until(date("2026-01-01T01:00:00Z")).await;
            if ends {
                let ended = world.subscription().cancel(false).await;
                ended.unwrap();
            }
            world.until(date("2026-01-03T00:00:00Z")).await;
            assert!(!world.owes(0).await);
            assert_eq!(world.invoice(0).await.unwrap().state, "void");
            world.check().await;
        }
    });
}

#[test]
fn an_unserved_customer_owes_nothing_if_the_first_payment_fails() {
    run(async {
        for ends in [false, true] {
            let world = World::starting("2026-01-01T00:00:00Z").await;
            world.bank.answer(|_| Verdict::RequiresAction);
            world.subscribe(monthly(1_000)).await;
            world.until(date("2026-01-01T01:00:00Z")).await;
            if ends {
                let ended = world.subscription().cancel(false).await;
                ended.unwrap();
            }
            world.until(date("2026-01-03T00:00:00Z")).await;
            assert!(world.owes(0).await, "it may still be paid");
            world.reports(0, 1, Verdict::Failed).await;
            world.until(date("2026-01-03T01:00:00Z")).await;
            assert!(!world.owes(0).await);
            assert_eq!(world.invoice(0).await.unwrap().state, "void");
            world.check().await;
        }
    });
}

#[test]
fn a_subscription_ended_before_its_first_payment_is_not_charged() {
    run(async {
        let world = World::starting("2026-01-01T00:00:00Z").await;
        world.bank.is_away(true);
        world.subscribe(monthly(1_000)).await;
        world.until(date("2026-01-01T01:00:00Z")).await;
        let ended = world.subscription().cancel(false).await;
        ended.unwrap();
        world.bank.is_away(false);
        world.until(date("2026-01-03T00:00:00Z")).await;
        assert_eq!(world.bank.begun().len(), 0);
        assert_eq!(world.invoice(0).await.unwrap().state, "void");
        world.check().await;
    });
}

#[test]
fn an_expiring_subscription_waits_for_an_unreported_first_payment() {
    run(async {
        let world = World::starting("2026-01-01T00:00:00Z").await;
        world.bank.answer(|_| Verdict::RequiresAction);
        world.bank.loses_answers(true);
        world.subscribe(monthly(1_000)).await;
        world.until(date("2026-01-01T01:00:00Z")).await;
        let world = world.killed().await;
        world.jump(date("2026-01-02T12:00:00Z"));
        world.bank.loses_answers(false);
        world.until(date("2026-01-03T00:00:00Z")).await;
        assert_eq!(world.state().await, "incomplete_expired");
        // The money comes, and is known of.
        world.reports(0, 1, Verdict::Paid).await;
        assert_eq!(world.invoice(0).await.unwrap().state, "paid");
        world.check().await;
    });
}

#[test]
fn credit_that_a_voided_invoice_has_used_comes_back() {
    run(async {
        let world = subscribed(3_000).await;
        world.until(date("2026-01-16T12:00:00Z")).await;
        let change = world.subscription().change("price_1000".into(), Some(1));
        change.await.unwrap();
        world.until(date("2026-01-31T00:00:00Z")).await;
        let change = world.subscription().change("price_3000".into(), Some(1));
        change.await.unwrap();
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-02-01T00:10:00Z")).await;
        let due = world.due(1).await;
        assert!((2_000..3_000).contains(&due), "{due}");
        let voided = world.subscription().void("in_sub_1_1".into()).await;
        voided.unwrap();
        world.bank.answer(|_| Verdict::Paid);
        world.until(date("2026-03-01T01:00:00Z")).await;
        assert_eq!(world.due(2).await, due);
        world.check().await;
    });
}

#[test]
fn a_period_credit_is_reversed_when_its_invoice_is_voided_later() {
    run(async {
        let world = World::starting("2026-01-01T00:00:00Z").await;
        world.price("price_dear", 7_000, "week").await;
        world.price("price_cheap", 700, "week").await;
        let weekly = NewSubscription {
            price: "price_dear".into(),
            ..monthly(0)
        };
        world.subscribe(weekly).await;
        world.until(date("2026-01-07T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-01-08T00:10:00Z")).await;
        let change = world.subscription().change("price_cheap".into(), Some(1));
        change.await.unwrap();
        world.bank.answer(|_| Verdict::Paid);
        world.until(date("2026-01-08T12:00:00Z")).await;
        assert_eq!(world.state().await, "past_due");
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-01-15T00:10:00Z")).await;
        assert_eq!(world.invoice(1).await.unwrap().state, "open");
        let voided = world.subscription().void("in_sub_1_1".into()).await;
        voided.unwrap();
        world.bank.answer(|_| Verdict::Paid);
        world.until(date("2026-02-06T00:00:00Z")).await;
        // The week of January 8 is free, and each other one costs 7.00 or was paid for.
        let mut due = 0;
        for number in 2..=5 {
            due += world.due(number).await;
        }
        assert_eq!(due, 4 * 700);
        world.check().await;
    });
}

#[test]
fn a_payment_does_not_overtake_what_a_node_that_was_away_makes_good() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-31T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-02-20T00:00:00Z")).await;
        assert_eq!(world.state().await, "unpaid");
        world.bank.answer(|_| Verdict::RequiresAction);
        let paid = world.subscription().pay("in_sub_1_1".into()).await;
        paid.unwrap();
        world.until(date("2026-02-20T01:00:00Z")).await;
        // March has begun when the node comes back, and there was no service in it.
        world.jump(date("2026-03-16T12:00:00Z"));
        world.reports(1, 6, Verdict::Paid).await;
        world.bank.answer(|_| Verdict::Paid);
        world.until(date("2026-04-02T00:00:00Z")).await;
        assert!(world.invoice(2).await.is_none());
        // Half of March, less half of February, and April.
        assert_eq!(world.due(3).await, 1_000 + 500 - 500);
        world.check().await;
    });
}

#[test]
fn what_is_ordered_after_the_clock_was_set_back_is_not_put_off() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-10T00:00:00Z")).await;
        let change = world.subscription().change("price_3000".into(), Some(1));
        change.await.unwrap();
        world.set_back(2 * DAY);
        world.subscription().cancel(false).await.unwrap();
        world.until(world.now().plus(HOUR)).await;
        assert_eq!(world.invoice(1).await.unwrap().state, "paid");
        world.check().await;
    });
}

#[test]
fn downtime_causes_no_retry_that_was_due_after_the_grace_period() {
    run(async {
        let world = World::starting("2026-01-01T00:00:00Z").await;
        world.price("price_week", 700, "week").await;
        let weekly = NewSubscription {
            price: "price_week".into(),
            ..monthly(0)
        };
        world.subscribe(weekly).await;
        world.until(date("2026-01-07T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-01-12T00:00:00Z")).await;
        world.jump(date("2026-01-20T10:00:00Z"));
        world.bank.answer(|intent| {
            if intent.invoice == "in_sub_1_1" {
                Verdict::Failed
            } else {
                Verdict::RequiresAction
            }
        });
        world.until(date("2026-01-21T08:00:00Z")).await;
        world.reports(2, 1, Verdict::Failed).await;
        // The first is due again at ten, the grace ends at midnight, and the second is due at eight.
        let begun = world.bank.begun().len();
        world.jump(date("2026-01-25T00:00:00Z"));
        world.until(date("2026-01-25T01:00:00Z")).await;
        assert_eq!(world.state().await, "unpaid");
        assert_eq!(world.bank.begun().len(), begun + 1);
        world.check().await;
    });
}

#[test]
fn a_repeated_void_before_the_first_arrives_counts_once() {
    run(async {
        let world = subscribed(1_000).await;
        world.until(date("2026-01-31T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-02-01T00:10:00Z")).await;
        for _ in 0..2 {
            let voided = world.subscription().void("in_sub_1_1".into()).await;
            voided.unwrap();
        }
        let other = world.subscription().void("in_sub_1_7".into()).await;
        assert!(other.is_err());
        world.until(date("2026-02-01T01:00:00Z")).await;
        assert_eq!(world.invoice(1).await.unwrap().state, "void");
        world.check().await;
    });
}
