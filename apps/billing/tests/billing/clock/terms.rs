//! Terms that a node or a subscription has set.

use std::collections::BTreeMap;

use abide_harness::run;
use billing::{
    LineKind, Time,
    resources::{NewSubscription, OwnTerms},
    states::{self, Annotation, Policy, Terms, Verdict},
};

use crate::clock::support::{DAY, World, date, monthly};

fn policy(terms: Terms) -> Policy {
    Policy {
        terms,
        minimum_charges: BTreeMap::new(),
        has_minimum: true,
    }
}

async fn lines(world: &World, number: u32) -> Vec<(LineKind, i64)> {
    let invoice = world.invoice(number).await.unwrap();
    let invoice: states::Invoice = serde_json::from_value(invoice.data).unwrap();
    let lines = invoice.lines().iter();
    lines
        .map(|line| (line.kind, line.amount.amount()))
        .collect()
}

#[test]
fn an_invoice_below_the_minimum_charge_is_on_the_next_one() {
    run(async {
        let policy = policy(Terms::default());
        let world = World::starting_with("2026-01-01T00:00:00Z", Some(policy)).await;
        world.price("price_20", 20, "month").await;
        world.subscribe(monthly(20)).await;
        world.until(date("2026-06-30T00:00:00Z")).await;
        // 20, 40 and 60 cents: the third is charged.
        for (number, due) in [(0, 0), (1, 0), (2, 60), (3, 0), (4, 0), (5, 60)] {
            assert_eq!(world.due(number).await, due, "{number}");
            assert_eq!(world.invoice(number).await.unwrap().state, "paid");
        }
        let (period, deferred, carried) = (LineKind::Period, LineKind::Deferred, LineKind::Carried);
        assert_eq!(lines(&world, 0).await, [(period, 20), (deferred, -20)]);
        assert_eq!(
            lines(&world, 1).await,
            [(period, 20), (carried, 20), (deferred, -40)]
        );
        assert_eq!(lines(&world, 2).await, [(period, 20), (carried, 40)]);
        assert_eq!(lines(&world, 3).await, [(period, 20), (deferred, -20)]);
        assert_eq!(world.bank.begun().len(), 2);
        assert_eq!(world.state().await, "active");
        world.check().await;
    });
}

#[test]
fn days_of_dunning_and_of_grace_are_those_of_the_subscription() {
    run(async {
        let terms = Terms {
            dunning_days: vec![2, 4],
            grace_days: 30,
            ..Terms::default()
        };
        let world = World::starting_with("2026-01-01T00:00:00Z", Some(policy(terms))).await;
        let own = OwnTerms {
            dunning_days: None,
            grace_days: Some(6),
        };
        let created = world
            .subscription()
            .create_with(monthly(1_000), own, Annotation::default())
            .await;
        created.unwrap();
        world.until(date("2026-01-31T00:00:00Z")).await;
        world.bank.answer(|_| Verdict::Failed);
        world.until(date("2026-02-06T23:00:00Z")).await;
        assert_eq!(world.state().await, "past_due");
        let begun = world.bank.begun();
        let days: Vec<i64> = begun[1..]
            .iter()
            .map(|payment| (payment.at.0 - date("2026-02-01T00:00:00Z").0) / DAY)
            .collect();
        assert_eq!(days, [0, 2, 4]);
        world.until(date("2026-02-07T00:10:00Z")).await;
        assert_eq!(world.state().await, "unpaid");
        world.check().await;
    });
}

#[test]
fn invalid_terms_are_refused() {
    run(async {
        let world = World::starting("2026-01-01T00:00:00Z").await;
        for own in [
            OwnTerms {
                dunning_days: Some(vec![3, 1]),
                grace_days: None,
            },
            OwnTerms {
                dunning_days: Some(vec![0]),
                grace_days: None,
            },
            OwnTerms {
                dunning_days: None,
                grace_days: Some(93),
            },
        ] {
            let refused = world
                .subscription()
                .create_with(monthly(1_000), own, Annotation::default())
                .await;
            assert!(refused.is_err());
        }
        let own = OwnTerms {
            dunning_days: Some(vec![]),
            grace_days: Some(0),
        };
        let created = world
            .subscription()
            .create_with(monthly(1_000), own, Annotation::default())
            .await;
        created.unwrap();
    });
}

#[test]
fn trial_ends_and_invoices_are_announced_in_advance() {
    run(async {
        let terms = Terms {
            trial_notice_days: 3,
            upcoming_notice_days: 7,
            ..Terms::default()
        };
        let world = World::starting_with("2026-01-01T00:00:00Z", Some(policy(terms))).await;
        let trial = NewSubscription {
            trial_days: 14,
            ..monthly(1_000)
        };
        world.subscribe(trial).await;
        world.until(date("2026-03-20T00:00:00Z")).await;
        let told = world.notified().await;
        let told: Vec<(&str, Time)> = told.iter().map(|(what, at)| (&**what, *at)).collect();
        assert_eq!(
            told,
            [
                ("trial_will_end", date("2026-01-12T00:00:00Z")),
                ("upcoming", date("2026-02-08T00:00:00Z")),
                ("upcoming", date("2026-03-08T00:00:00Z")),
            ]
        );
        // Nothing is told of what will not be.
        world.subscription().cancel(true).await.unwrap();
        world.until(date("2026-05-01T00:00:00Z")).await;
        assert_eq!(world.notified().await.len(), 3);
        world.check().await;
    });
}
