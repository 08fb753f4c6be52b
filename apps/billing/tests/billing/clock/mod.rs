//! The billing clock, on a node on a disk in memory with a clock that jumps from one alarm to the next.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod crashes;
mod late;
mod money;
mod plans;
mod reads;
mod support;
mod terms;

use abide_harness::run;
use billing::{Time, clock::is_in_trouble, states::Verdict};

use crate::clock::support::{DAY, HOUR, World, date, monthly};

#[test]
fn periods_are_billed_at_their_start_without_drift_over_months() {
    run(async {
        let world = World::starting("2027-01-31T10:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.until(date("2028-02-29T10:00:01Z")).await;
        assert_eq!(world.state().await, "active");
        let mut starts = Vec::new();
        for number in 0.. {
            let Some(invoice) = world.invoice(number).await else {
                break;
            };
            assert_eq!(invoice.state, "paid", "{number}");
            starts.push(invoice.at.to_string()[..10].to_owned());
        }
        let days = [
            "2027-01-31",
            "2027-02-28",
            "2027-03-31",
            "2027-04-30",
            "2027-05-31",
            "2027-06-30",
            "2027-07-31",
            "2027-08-31",
            "2027-09-30",
            "2027-10-31",
            "2027-11-30",
            "2027-12-31",
            "2028-01-31",
            "2028-02-29",
        ];
        assert_eq!(starts, days);
        assert_eq!(world.bank.begun().len(), days.len(), "each is paid once");
    });
}

#[test]
fn a_trial_costs_nothing_until_it_ends() {
    run(async {
        let world = World::starting("2027-01-31T10:00:00Z").await;
        let mut new = monthly(1_000);
        new.trial_days = 14;
        let begun = world.now();
        world.subscribe(new).await;
        world.until(begun.plus(14 * DAY - 1)).await;
        assert_eq!(world.state().await, "trialing");
        assert_eq!(world.bank.begun().len(), 0);
        world.until(begun.plus(14 * DAY)).await;
        assert_eq!(world.state().await, "active");
        let first = world.invoice(0).await.unwrap();
        assert_eq!(
            (first.state.as_str(), first.at),
            ("paid", begun.plus(14 * DAY))
        );
        // Periods are counted from there.
        world.until(date("2027-03-14T10:00:00Z")).await;
        assert!(world.invoice(1).await.is_some());
    });
}

#[test]
fn one_that_ends_with_its_trial_is_never_billed() {
    run(async {
        let world = World::starting("2027-01-31T10:00:00Z").await;
        let mut new = monthly(1_000);
        new.trial_days = 14;
        world.subscribe(new).await;
        world.subscription().cancel(true).await.unwrap();
        world.until(world.now().plus(60 * DAY)).await;
        assert_eq!(world.state().await, "canceled");
        assert!(world.invoice(0).await.is_none());
        assert!(world.timers().await.is_empty());
    });
}

#[test]
fn a_failed_payment_is_retried_on_days_1_3_5_7_then_service_ends() {
    run(async {
        let world = World::starting("2027-01-01T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.until(date("2027-01-20T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        let second = date("2027-02-01T00:00:00Z");
        world.until(second.plus(14 * DAY - 1)).await;
        assert_eq!(world.state().await, "past_due");
        assert!(
            world.is_entitled().await,
            "there is service in the days of grace"
        );
        let days: Vec<i64> = world.bank.begun()[1..]
            .iter()
            .map(|payment| (payment.at.0 - second.0) / DAY)
            .collect();
        assert_eq!(days, [0, 1, 3, 5, 7]);
        world.until(second.plus(14 * DAY)).await;
        assert_eq!(world.state().await, "unpaid");
        assert!(!world.is_entitled().await);
        // Unserved periods are not billed.
        world.until(date("2027-05-10T00:00:00Z")).await;
        assert!(world.invoice(2).await.is_none());
        // The customer pays after all, by hand.
        world.pays(1, 6).await;
        world.rest().await;
        assert_eq!(world.state().await, "active");
        world.bank.answer(|_| Verdict::Paid);
        world.until(date("2027-06-02T00:00:00Z")).await;
        let next = world.invoice(5).await.unwrap();
        assert_eq!(
            (next.state.as_str(), next.at),
            ("paid", date("2027-06-01T00:00:00Z"))
        );
    });
}

#[test]
fn a_retry_that_succeeds_ends_the_dunning() {
    run(async {
        let world = World::starting("2027-01-01T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.until(date("2027-01-20T00:00:00Z")).await;
        world.bank.answer(|intent| {
            if intent.attempt < 3 {
                Verdict::Failed
            } else {
                Verdict::Paid
            }
        });
        world.until(date("2027-02-04T12:00:00Z")).await;
        assert_eq!(world.state().await, "active");
        let names: Vec<String> = world
            .timers()
            .await
            .into_iter()
            .map(|timer| timer.name)
            .collect();
        assert!(names.contains(&"period".to_owned()), "{names:?}");
        assert!(
            !names
                .iter()
                .any(|name| name == "dunning" || name == "grace"),
            "{names:?}"
        );
        world.until(date("2027-02-20T00:00:00Z")).await;
        assert_eq!(world.state().await, "active");
        assert_eq!(world.bank.begun().len(), 1 + 3);
    });
}

#[test]
fn a_payment_that_cannot_begin_begins_as_soon_as_it_can() {
    run(async {
        let world = World::starting("2027-01-01T00:00:00Z").await;
        world.bank.is_away(true);
        world.subscribe(monthly(1_000)).await;
        world.until(world.now().plus(2 * HOUR)).await;
        assert_eq!(world.state().await, "incomplete");
        assert_eq!(world.bank.begun().len(), 0);
        world.bank.is_away(false);
        world.until(world.now().plus(2 * HOUR)).await;
        assert_eq!(world.state().await, "active");
        assert_eq!(world.bank.begun().len(), 1);
        world.check().await;
    });
}

#[test]
fn a_payment_that_cannot_begin_is_listed_until_it_does() {
    run(async {
        let world = World::starting("2027-01-01T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.until(date("2027-01-31T00:00:00Z")).await;
        world.bank.is_away(true);
        world.until(date("2027-02-02T00:00:00Z")).await;
        let in_trouble = async || {
            let timers = world.timers().await;
            timers.iter().filter(|timer| is_in_trouble(timer)).count()
        };
        assert_eq!(in_trouble().await, 0);
        world.until(date("2027-02-12T00:00:00Z")).await;
        assert_eq!(world.bank.begun().len(), 1);
        assert_eq!(in_trouble().await, 1);
        world.bank.is_away(false);
        world.until(world.now().plus(2 * HOUR)).await;
        assert_eq!(world.bank.begun().len(), 2);
        assert_eq!(in_trouble().await, 0);
        assert_eq!(world.state().await, "active");
        world.check().await;
    });
}

#[test]
fn service_resumed_in_a_skipped_period_is_billed_for_the_rest() {
    run(async {
        let world = World::starting("2027-03-01T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.until(date("2027-03-20T00:00:00Z")).await;
        world.subscription().pause().await.unwrap();
        // Half of the thirty days of April are left.
        world.until(date("2027-04-16T00:00:00Z")).await;
        assert!(world.invoice(1).await.is_none(), "there was no service");
        world.subscription().resume().await.unwrap();
        // Two of three tenths of the price that are left of that are given back, and paid for at the other one.
        world.until(date("2027-04-22T00:00:00Z")).await;
        let changed = world
            .subscription()
            .change("price_3000".into(), Some(1))
            .await;
        changed.unwrap();
        world.until(date("2027-05-02T00:00:00Z")).await;
        // So are twelve days of March's thirty-one, without service.
        assert_eq!(world.due(2).await, 3_000 + 500 - 300 + 900 - 387);
        assert_eq!(world.state().await, "active");
        world.check().await;
    });
}

#[test]
fn who_pays_after_service_has_ended_is_billed_for_the_rest_of_the_period() {
    run(async {
        let world = World::starting("2027-03-01T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.until(date("2027-03-20T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        // June is skipped; half of it is left.
        world.until(date("2027-06-16T00:00:00Z")).await;
        assert_eq!(world.state().await, "unpaid");
        world.pays(1, 6).await;
        world.rest().await;
        assert_eq!(world.state().await, "active");
        world.until(date("2027-07-02T00:00:00Z")).await;
        // So are sixteen days of April's thirty, after the grace, without service.
        assert_eq!(world.due(4).await, 1_000 + 500 - 533);
        world.check().await;
    });
}

#[test]
fn who_owes_after_a_pause_is_dunned() {
    run(async {
        let world = World::starting("2027-03-01T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.until(date("2027-03-20T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::RequiresAction);
        world.until(date("2027-04-02T00:00:00Z")).await;
        world.subscription().pause().await.unwrap();
        world.reports(1, 1, Verdict::Failed).await;
        assert_eq!(world.state().await, "paused");
        world.until(date("2027-04-03T00:00:00Z")).await;
        world.subscription().resume().await.unwrap();
        assert_eq!(world.state().await, "past_due");
        world.bank.answer(|_| Verdict::Paid);
        world.until(date("2027-04-04T00:00:00Z")).await;
        assert_eq!(world.state().await, "active");
        assert_eq!(world.invoice(1).await.unwrap().state, "paid");
        world.check().await;
    });
}

#[test]
fn a_subscription_that_has_ended_can_pay_what_it_owes() {
    run(async {
        let world = World::starting("2027-03-01T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.until(date("2027-03-20T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2027-04-02T12:00:00Z")).await;
        world.subscription().cancel(false).await.unwrap();
        world.until(date("2027-04-20T00:00:00Z")).await;
        assert_eq!(world.invoice(1).await.unwrap().state, "open");
        world.pays(1, 3).await;
        world.rest().await;
        assert_eq!(world.invoice(1).await.unwrap().state, "paid");
        assert_eq!(world.state().await, "canceled");
        world.check().await;
    });
}

#[test]
fn what_has_expired_before_its_payment_could_begin_costs_nothing() {
    run(async {
        let world = World::starting("2027-03-01T00:00:00Z").await;
        world.bank.is_away(true);
        world.subscribe(monthly(1_000)).await;
        world.until(world.now().plus(HOUR)).await;
        let world = world.killed().await;
        world.bank.is_away(false);
        world.jump(world.now().plus(24 * HOUR));
        world.until(world.now().plus(2 * DAY)).await;
        assert_eq!(world.state().await, "incomplete_expired");
        assert_eq!(world.bank.begun().len(), 0);
        assert_eq!(world.invoice(0).await.unwrap().state, "void");
        assert!(!world.owes(0).await);
        world.check().await;
    });
}

#[test]
fn a_first_invoice_that_is_not_paid_expires_after_23_hours() {
    run(async {
        let world = World::starting("2027-01-01T00:00:00Z").await;
        world.bank.answer(|_| Verdict::RequiresAction);
        let begun = world.now();
        world.subscribe(monthly(1_000)).await;
        world.until(begun.plus(23 * HOUR - 1)).await;
        assert_eq!(world.state().await, "incomplete");
        world.until(begun.plus(60 * DAY)).await;
        assert_eq!(world.state().await, "incomplete_expired");
        assert!(world.invoice(1).await.is_none());
    });
}

#[test]
fn a_subscription_ends_when_what_is_paid_for_ends() {
    run(async {
        let world = World::starting("2027-01-31T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.until(date("2027-03-10T00:00:00Z")).await;
        world.subscription().cancel(true).await.unwrap();
        world.until(Time(date("2027-03-31T00:00:00Z").0 - 1)).await;
        assert_eq!(world.state().await, "active");
        world.until(date("2027-06-01T00:00:00Z")).await;
        assert_eq!(world.state().await, "canceled");
        assert!(world.invoice(1).await.is_some());
        assert!(world.invoice(2).await.is_none());
        assert!(world.timers().await.is_empty());
    });
}

#[test]
fn an_end_that_is_taken_back_does_not_come() {
    run(async {
        let world = World::starting("2027-01-31T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.rest().await;
        world.subscription().cancel(true).await.unwrap();
        world.subscription().keep().await.unwrap();
        world.until(date("2027-03-10T00:00:00Z")).await;
        assert_eq!(world.state().await, "active");
        assert!(world.invoice(1).await.is_some());
    });
}

#[test]
fn plan_changes_are_prorated_on_the_next_invoice() {
    run(async {
        let world = World::starting("2027-04-01T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        // Half of the thirty days of April is left: 15.00 more, and 5.00 back.
        world.until(date("2027-04-16T00:00:00Z")).await;
        world
            .subscription()
            .change("price_3000".into(), Some(1))
            .await
            .unwrap();
        world.until(date("2027-05-01T00:00:00Z")).await;
        assert_eq!(world.due(1).await, 3_000 + 1_500 - 500);
        // A tenth of June is left: 3.00 back, and 1.00 more.
        world.until(date("2027-06-28T00:00:00Z")).await;
        world
            .subscription()
            .change("price_1000".into(), Some(1))
            .await
            .unwrap();
        world.until(date("2027-07-02T00:00:00Z")).await;
        assert_eq!(world.due(2).await, 3_000);
        assert_eq!(world.due(3).await, 1_000 - 300 + 100);
        assert_eq!(world.state().await, "active");
    });
}

#[test]
fn what_costs_nothing_needs_no_payment() {
    run(async {
        let world = World::starting("2027-01-01T00:00:00Z").await;
        world.subscribe(monthly(0)).await;
        world.until(date("2027-03-02T00:00:00Z")).await;
        assert_eq!(world.state().await, "active");
        assert_eq!(world.periods().await, [0, 1, 2]);
        assert_eq!(world.invoice(2).await.unwrap().state, "paid");
        assert_eq!(world.bank.begun().len(), 0);
    });
}

#[test]
fn a_node_that_was_down_for_a_year_bills_every_period_in_its_order() {
    run(async {
        let world = World::starting("2027-01-31T00:00:00Z").await;
        world.subscribe(monthly(1_000)).await;
        world.until(date("2027-02-01T00:00:00Z")).await;
        let world = world.killed().await;
        world.jump(date("2028-02-01T00:00:00Z"));
        world.rest().await;
        assert_eq!(world.state().await, "active");
        let periods = world.periods().await;
        assert_eq!(periods, (0..=12).collect::<Vec<u32>>());
        assert_eq!(world.bank.begun().len(), 13);
    });
}

#[test]
fn ten_years_pass_in_seconds() {
    run(async {
        let world = World::starting("2026-01-31T12:00:00Z").await;
        // Every seventh payment fails once.
        world.bank.answer(|intent| {
            let number: u32 = intent.invoice.rsplit('_').next().unwrap().parse().unwrap();
            let fails = number % 7 == 3 && intent.attempt == 1;
            if fails {
                Verdict::Failed
            } else {
                Verdict::Paid
            }
        });
        let begun = std::time::Instant::now();
        world.subscribe(monthly(1_000)).await;
        world.until(date("2036-01-31T12:00:00Z")).await;
        println!("ten years of a subscription: {:?}", begun.elapsed());
        assert_eq!(world.state().await, "active");
        assert_eq!(world.periods().await, (0..=120).collect::<Vec<u32>>());
        for number in 0..=120 {
            assert_eq!(
                world.invoice(number).await.unwrap().state,
                "paid",
                "{number}"
            );
        }
        world.check().await;
    });
}
