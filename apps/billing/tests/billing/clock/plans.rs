//! Changes of plan: what they come to, and before they are made.

use abide_harness::run;
use billing::{
    Every, Time,
    resources::NewSubscription,
    states::{self, Upcoming},
};

use crate::clock::support::{World, date, monthly};

/// A monthly subscription over 10, and a price over 120 for a year.
async fn subscribed() -> World {
    let world = World::starting("2026-01-01T00:00:00Z").await;
    world.price("price_year", 12_000, "year").await;
    world.subscribe(monthly(1_000)).await;
    world.until(date("2026-01-11T00:00:00Z")).await;
    world
}

async fn upcoming(world: &World) -> Option<Upcoming> {
    world.subscription().upcoming().await.unwrap()
}

async fn period(world: &World) -> (Time, Time) {
    let view = world.subscription().get_state().await.unwrap();
    let live: states::Subscription = serde_json::from_value(view.data).unwrap();
    let period = live.period.unwrap();
    (period.start, period.end)
}

#[test]
fn who_goes_from_months_to_a_year_pays_each_day_once_and_back_again() {
    run(async {
        let world = subscribed().await;
        let previewed = world.subscription().preview("price_year".into(), None);
        let previewed = previewed.await.unwrap();
        let history = world.subscription().get_history(0, 100).await.unwrap();
        let before = history.len();
        let changed = world.subscription().change("price_year".into(), None);
        changed.await.unwrap();
        world.until(date("2026-01-11T01:00:00Z")).await;
        // 21 of January's 31 days were paid for.
        assert_eq!(world.due(1).await, 12_000 - 677);
        let next = previewed.upcoming.unwrap();
        assert_eq!(next.totals.due.amount(), 12_000 - 677);
        assert_eq!(
            (next.invoice.as_str(), next.at),
            ("in_sub_1_1", date("2026-01-11T00:00:00Z"))
        );
        let history = world.subscription().get_history(0, 100).await.unwrap();
        assert!(history.len() > before, "a preview writes nothing");
        let year = (date("2026-01-11T00:00:00Z"), date("2027-01-11T00:00:00Z"));
        assert_eq!(period(&world).await, year);
        world.until(date("2027-01-12T00:00:00Z")).await;
        assert_eq!(world.billed().await, [0, 1, 2]);
        assert_eq!(world.due(2).await, 12_000);

        let changed = world.subscription().change("price_1000".into(), None);
        changed.await.unwrap();
        world.until(date("2027-02-13T00:00:00Z")).await;
        // 364 of 365 days are credit, for the months that follow.
        assert_eq!(world.billed().await, [0, 1, 2, 3, 4]);
        assert_eq!((world.due(3).await, world.due(4).await), (0, 0));
        let next = upcoming(&world).await.unwrap();
        assert_eq!(next.totals.left.amount(), 11_967 - 3 * 1_000);
        assert_eq!(next.at, date("2027-03-12T00:00:00Z"));
        world.check().await;
    });
}

#[test]
fn a_change_of_period_length_needs_an_active_subscription() {
    run(async {
        let world = subscribed().await;
        world.subscription().cancel(true).await.unwrap();
        let changed = world.subscription().change("price_year".into(), None);
        let refused = changed.await.unwrap_err();
        assert!(
            refused.to_string().contains("ends with its period"),
            "{refused}"
        );
        world.subscription().keep().await.unwrap();
        world.subscription().pause().await.unwrap();
        let preview = world.subscription().preview("price_year".into(), None);
        assert!(preview.await.is_err());
    });
}

#[test]
fn the_next_invoice_is_what_it_is_said_to_be() {
    run(async {
        let world = World::starting("2026-01-01T00:00:00Z").await;
        let trial = NewSubscription {
            trial_days: 7,
            ..monthly(1_000)
        };
        world.subscribe(trial).await;
        let first = upcoming(&world).await.unwrap();
        assert_eq!(
            (first.at, first.totals.due.amount()),
            (date("2026-01-08T00:00:00Z"), 1_000)
        );
        world.until(date("2026-01-20T00:00:00Z")).await;
        let preview = world.subscription().preview("price_3000".into(), Some(2));
        let preview = preview.await.unwrap();
        let changed = world.subscription().change("price_3000".into(), Some(2));
        changed.await.unwrap();
        let next = upcoming(&world).await;
        assert_eq!(preview.upcoming, next);
        assert_eq!(next.as_ref().unwrap().draft.lines.all().len(), 3);
        world.until(date("2026-02-08T01:00:00Z")).await;
        assert_eq!(world.due(1).await, next.unwrap().totals.due.amount());
        world.subscription().cancel(true).await.unwrap();
        assert_eq!(upcoming(&world).await, None);
        let view = world.subscription().get_state().await.unwrap();
        let live: states::Subscription = serde_json::from_value(view.data).unwrap();
        assert_eq!(live.plan.unwrap().every, Every::MONTH);
    });
}

#[test]
fn a_change_without_a_quantity_keeps_one_that_was_set_meanwhile() {
    run(async {
        let world = subscribed().await;
        // Both are sent before either is answered: the first is applied while the second waits for its price.
        let seats = world.subscription().change("price_1000".into(), Some(5));
        let price = world.subscription().change("price_3000".into(), None);
        seats.await.unwrap();
        let view = price.await.unwrap();
        let plan = &view.data["plan"];
        assert_eq!(
            (&plan["price"], &plan["quantity"]),
            (&"price_3000".into(), &5.into())
        );
    });
}
