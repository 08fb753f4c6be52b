//! The objects on a host in memory: no clock but the one that is passed to them.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{sync::Arc, time::Duration};

use abide::{Host, Stub, clock::TestClock, server::LocalHost};
use abide_harness::run;
use waiting_room::{
    logic::{
        bucket::{BucketId, Draw},
        merge::RoomState,
        minute::Minute,
        report::Lane,
    },
    objects::{Claim, DataCentre, Happening, Number, Terms, TicketCounter, World},
    ticket::VisitorId,
};

const MINUTE: u64 = 60_000;
/// The minute 100 begins.
const NOW: u64 = 100 * MINUTE;

async fn host() -> LocalHost {
    host_at(&TestClock::new()).await
}

async fn host_at(clock: &TestClock) -> LocalHost {
    Host::open_in_memory()
        .clock(Arc::new(clock.clone()))
        .object::<DataCentre>()
        .object::<World>()
        .object::<TicketCounter>()
        .start_local()
        .await
        .unwrap()
}

fn visitor(number: u8) -> VisitorId {
    VisitorId([number; 16])
}

fn terms(data_centre: &str) -> Terms {
    Terms {
        room: "shop".to_owned(),
        data_centre: data_centre.to_owned(),
        minute_millis: MINUTE,
        session_millis: 5 * MINUTE,
        patience_millis: MINUTE,
        draw: None,
    }
}

fn bucket(minute: u64) -> BucketId {
    BucketId::first_of(Minute(minute))
}

fn centre(host: &LocalHost, name: &str) -> Stub<DataCentre> {
    let name = format!("shop/{name}");
    host.env().object::<DataCentre>().get_by_name(&name)
}

async fn report(centre: &Stub<DataCentre>, name: &str, now: u64, told: &[Happening]) -> RoomState {
    let (terms, worker) = (terms(name), "worker-1".to_owned());
    centre
        .report(terms, now, worker, told.to_vec())
        .await
        .unwrap()
        .state
}

fn claim(number: u8, lane: Lane, most_in_lane: u64, most: Option<u64>) -> Claim {
    Claim {
        minute: Minute(100),
        visitor: visitor(number),
        lane,
        most_in_lane: Some(most_in_lane),
        most,
        is_borrowed: false,
    }
}

#[test]
fn a_visitor_gets_one_number_and_none_after_the_minute() {
    run(async {
        let host = host().await;
        let counter = host
            .env()
            .object::<TicketCounter>()
            .get_by_name("shop/dc-1/100");
        let take = async |claim| counter.take(claim).await.unwrap();
        let lane = Lane::Bucket(bucket(99));
        assert_eq!(take(claim(1, Lane::New, 1, Some(2))).await, Number::Given);
        assert_eq!(
            take(claim(1, Lane::New, 1, Some(2))).await,
            Number::Given,
            "the same number"
        );
        assert_eq!(
            take(claim(2, Lane::New, 1, Some(2))).await,
            Number::NoneLeft
        );
        assert_eq!(take(claim(3, lane, 5, Some(2))).await, Number::Given);
        assert_eq!(
            take(claim(4, lane, 5, Some(2))).await,
            Number::NoneLeft,
            "of all lanes"
        );
        let mut known = counter.close(Minute(100)).await.unwrap();
        known.sort_by_key(|(visitor, _)| visitor.0);
        assert_eq!(known, [(visitor(1), Lane::New), (visitor(3), lane)]);
        assert_eq!(take(claim(5, Lane::New, 9, None)).await, Number::Closed);
    });
}

#[test]
fn a_deleted_counter_can_still_be_asked() {
    run(async {
        let clock = TestClock::new();
        let host = host_at(&clock).await;
        let counters = host.env().object::<TicketCounter>();
        let named = |name| counters.get_by_name(name);
        let (closed, open) = (named("shop/dc-1/100"), named("shop/dc-1/101"));
        let bound = claim(1, Lane::New, 1, Some(1));
        for counter in [&closed, &open] {
            assert_eq!(counter.take(bound).await.unwrap(), Number::Given);
        }
        assert_eq!(closed.close(Minute(100)).await.unwrap().len(), 1);
        clock.advance(Duration::from_mins(29));
        host.settle().await.unwrap();
        assert_eq!(closed.given(Minute(100)).await.unwrap().len(), 1);
        clock.advance(Duration::from_mins(1));
        host.settle().await.unwrap();
        assert_eq!(closed.given(Minute(100)).await.unwrap(), []);
        // The data centre was down, and begins where it was.
        clock.advance(Duration::from_hours(24));
        host.settle().await.unwrap();
        assert_eq!(open.given(Minute(100)).await.unwrap().len(), 1);
        clock.advance(Duration::from_mins(30));
        host.settle().await.unwrap();
        assert_eq!(open.close(Minute(100)).await.unwrap(), []);
        let late = claim(2, Lane::New, 1, Some(1));
        assert_eq!(open.take(late).await.unwrap(), Number::Closed);
    });
}

#[test]
fn a_counter_whose_name_is_used_again_begins_anew_and_does_not_go_back() {
    run(async {
        let host = host().await;
        let counters = host.env().object::<TicketCounter>();
        let counter = counters.get_by_name("shop/dc-1/100");
        let (early, late) = (Minute(100), Minute(100 + 2_048));
        let take = async |minute, number| {
            let claim = Claim {
                minute,
                ..claim(number, Lane::New, 1, Some(1))
            };
            counter.take(claim).await.unwrap()
        };
        let given = async |minute| counter.given(minute).await.unwrap();
        assert_eq!(take(early, 1).await, Number::Given);
        assert_eq!(counter.close(early).await.unwrap().len(), 1);
        // No visitor was admitted in the later minute.
        assert_eq!(given(late).await, []);
        assert_eq!(given(early).await.len(), 1);
        assert_eq!(take(late, 2).await, Number::Given);
        assert_eq!(take(late, 3).await, Number::NoneLeft);
        assert_eq!(given(late).await, [(visitor(2), Lane::New)]);
        // A claim that was long on its way changes nothing.
        assert_eq!(take(early, 4).await, Number::Closed);
        assert_eq!(counter.close(early).await.unwrap(), []);
        assert_eq!(take(late, 2).await, Number::Given);
    });
}

#[test]
fn the_state_of_a_minute_counts_all_numbers_of_the_minute_before() {
    run(async {
        let host = host().await;
        let centre = centre(&host, "dc-1");
        assert_eq!(report(&centre, "dc-1", NOW, &[]).await.active, 0);
        let counter = host
            .env()
            .object::<TicketCounter>()
            .get_by_name("shop/dc-1/100");
        for number in 0..3 {
            let number = counter
                .take(claim(number, Lane::New, 9, None))
                .await
                .unwrap();
            assert_eq!(number, Number::Given);
        }
        // The worker that admitted them reports one of them, and is killed.
        let told = Happening::Admitted {
            visitor: visitor(0),
            minute: Minute(100),
            lane: Lane::New,
            borrowed_from: None,
        };
        let before = report(&centre, "dc-1", NOW + 30_000, &[told.clone(), told]).await;
        assert_eq!((before.active, before.admitted()), (1, 1));
        let after = report(&centre, "dc-1", NOW + MINUTE, &[]).await;
        assert_eq!((after.active, after.admitted()), (3, 0));
        assert_eq!(after.reports[0].admitted[&Minute(100)], 3);
        assert_eq!(after.reports[0].arrivals[&Minute(100)], 3);
    });
}

#[test]
fn an_admission_for_a_minute_that_is_over_is_refused() {
    run(async {
        let host = host().await;
        let centre = centre(&host, "dc-1");
        let admitted = |number, minute| Happening::Admitted {
            visitor: visitor(number),
            minute: Minute(minute),
            lane: Lane::New,
            borrowed_from: Some("dc-2".to_owned()),
        };
        report(&centre, "dc-1", NOW, &[]).await;
        let told = vec![admitted(1, 100), admitted(2, 101)];
        let worker = "worker-1".to_owned();
        let reported = centre.report(terms("dc-1"), NOW + MINUTE, worker, told);
        let reported = reported.await.unwrap();
        assert_eq!(reported.late, [visitor(1)]);
        assert_eq!((reported.state.active, reported.state.admitted()), (1, 1));
        assert_eq!(reported.state.given("dc-2"), 1);
    });
}

#[test]
fn a_borrowed_number_counts_for_bounds_but_not_as_the_lender_s_visitor() {
    run(async {
        let host = host().await;
        let centre = centre(&host, "dc-1");
        report(&centre, "dc-1", NOW, &[]).await;
        let counters = host.env().object::<TicketCounter>();
        let counter = counters.get_by_name("shop/dc-1/100");
        let take = async |claim| counter.take(claim).await.unwrap();
        let borrowed = Claim {
            is_borrowed: true,
            ..claim(1, Lane::New, 2, Some(2))
        };
        assert_eq!(take(borrowed).await, Number::Given);
        assert_eq!(take(claim(2, Lane::New, 2, Some(2))).await, Number::Given);
        assert_eq!(
            take(claim(3, Lane::New, 2, Some(2))).await,
            Number::NoneLeft
        );
        let after = report(&centre, "dc-1", NOW + MINUTE, &[]).await;
        assert_eq!(after.active, 1);
    });
}

#[test]
fn re_admission_with_an_old_ticket_is_counted_twice() {
    run(async {
        let host = host().await;
        let centre = centre(&host, "dc-1");
        let admitted = |minute| Happening::Admitted {
            visitor: visitor(1),
            minute: Minute(minute),
            lane: Lane::Bucket(bucket(99)),
            borrowed_from: None,
        };
        let terms = Terms {
            session_millis: MINUTE,
            ..terms("dc-1")
        };
        let report = async |now, told: &[Happening]| {
            let worker = "worker-1".to_owned();
            let state = centre.report(terms.clone(), now, worker, told.to_vec());
            state.await.unwrap().state
        };
        let inside = report(NOW, &[admitted(100), admitted(100)]).await;
        assert_eq!((inside.active, inside.admitted()), (1, 1));
        let gone = report(NOW + 2 * MINUTE, &[]).await;
        assert_eq!((gone.active, gone.admitted()), (0, 0));
        let again = report(NOW + 2 * MINUTE, &[admitted(102), admitted(102)]).await;
        assert_eq!((again.active, again.admitted()), (1, 1));
        let late = report(NOW + 2 * MINUTE, &[admitted(100)]).await;
        assert_eq!((late.active, late.admitted()), (1, 1));
    });
}

#[test]
fn visitors_who_stop_polling_leave_unless_the_process_is_down() {
    run(async {
        let host = host().await;
        let centre = centre(&host, "dc-1");
        let bucket = bucket(100);
        let joined = |number| Happening::Joined {
            visitor: visitor(number),
            minute: Minute::at(NOW, MINUTE),
            bucket,
        };
        let state = report(&centre, "dc-1", NOW, &[joined(1), joined(2)]).await;
        assert_eq!(state.waiting(), 2);
        // A start after ten minutes.
        let later = NOW + 10 * MINUTE;
        centre.resume(terms("dc-1"), later).await.unwrap();
        assert_eq!(report(&centre, "dc-1", later, &[]).await.waiting(), 2);
        let looked = Happening::Looked {
            visitor: visitor(2),
            bucket,
        };
        report(
            &centre,
            "dc-1",
            later + 50_000,
            std::slice::from_ref(&looked),
        )
        .await;
        assert_eq!(
            report(&centre, "dc-1", later + MINUTE + 1, &[])
                .await
                .waiting(),
            1
        );
        let admitted = Happening::Admitted {
            visitor: visitor(2),
            minute: Minute(111),
            lane: Lane::Bucket(bucket),
            borrowed_from: None,
        };
        let told = [admitted, looked];
        let state = report(&centre, "dc-1", later + MINUTE + 2, &told).await;
        assert_eq!(
            (state.waiting(), state.active),
            (0, 1),
            "a late look brings no visitor back"
        );
        let ended = later + MINUTE + 2 + 5 * MINUTE;
        assert_eq!(report(&centre, "dc-1", ended, &[]).await.active, 1);
        assert_eq!(report(&centre, "dc-1", ended + 1, &[]).await.active, 0);
    });
}

#[test]
fn a_draw_places_waiting_visitors_before_later_ones() {
    run(async {
        let host = host().await;
        let centre = centre(&host, "dc-1");
        let draw = Draw {
            at: NOW + MINUTE,
            minute: Minute(101),
        };
        let terms = Terms {
            draw: Some(draw),
            ..terms("dc-1")
        };
        let report = async |now, told: &[Happening]| {
            let worker = "worker-1".to_owned();
            let reported = centre.report(terms.clone(), now, worker, told.to_vec());
            let state = reported.await.unwrap().state;
            let buckets = state.buckets.iter();
            buckets
                .map(|bucket| (bucket.id, bucket.waiting))
                .collect::<Vec<_>>()
        };
        let joined = |number, now| Happening::Joined {
            visitor: visitor(number),
            minute: Minute::at(now, MINUTE),
            bucket: terms.join(now),
        };
        let crowd: Vec<_> = (0..50).map(|number| joined(number, NOW)).collect();
        assert_eq!(report(NOW, &crowd).await.len(), 1);
        let drawn = report(draw.at, &[]).await;
        assert!(drawn.len() > 40, "{drawn:?}");
        let places = (0..50).map(|number| terms.place(visitor(number), bucket(100), draw.at));
        let mut places: Vec<_> = places.collect();
        places.sort_unstable();
        let drawn: Vec<_> = drawn
            .into_iter()
            .flat_map(|(bucket, waiting)| (0..waiting).map(move |_| bucket))
            .collect();
        assert_eq!(drawn, places);
        // One who joined before the draw and was reported after it is drawn, too; a later one is last.
        let late = [joined(60, NOW), joined(61, draw.at)];
        let after = report(draw.at + 1, &late).await;
        assert!(
            after
                .iter()
                .any(|(id, _)| *id == terms.place(visitor(60), bucket(100), draw.at))
        );
        assert_eq!(after.last(), Some(&(bucket(101), 1)));
    });
}

#[test]
fn data_centres_exchange_reports_and_a_silent_one_gets_no_slots() {
    run(async {
        let host = host().await;
        let world = host.env().object::<World>().get_by_name("shop");
        let (one, two) = (centre(&host, "dc-1"), centre(&host, "dc-2"));
        let joined = |number| Happening::Joined {
            visitor: visitor(number),
            minute: Minute::at(NOW, MINUTE),
            bucket: bucket(100),
        };
        report(&one, "dc-1", NOW, &[joined(1)]).await;
        report(&two, "dc-2", NOW, &[joined(2), joined(3)]).await;
        let exchange = async |name: &str, centre: &Stub<DataCentre>, now| {
            let own = centre.summary(terms(name), now).await.unwrap();
            let others = world.exchange(own).await.unwrap();
            centre.hear(others).await.unwrap();
        };
        exchange("dc-2", &two, NOW).await;
        exchange("dc-1", &one, NOW).await;
        let merged = report(&one, "dc-1", NOW + 1, &[]).await;
        assert_eq!((merged.waiting(), merged.workers_world), (3, 2));
        let silent = report(&one, "dc-1", NOW + MINUTE, &[]).await;
        assert_eq!(silent.waiting(), 1);
        assert!(silent.reports[1].is_silent && !silent.reports[0].is_silent);
    });
}

#[test]
fn the_key_of_the_tickets_is_made_once() {
    run(async {
        let host = host().await;
        let key = async |room: &str| {
            let world = host.env().object::<World>().get_by_name(room);
            world.key().await.unwrap()
        };
        assert_eq!(key("shop").await, key("shop").await);
        assert_ne!(key("shop").await, key("other").await);
        assert_eq!(key("shop").await.len(), 32);
    });
}
