//! What takes time, on a virtual clock: escalation, retries of webhooks, hibernation.

use std::{net::SocketAddr, time::Duration};

use crate::support::{SECRET, View, answering, in_memory, until};
use abide::{
    Stub,
    clock::Clock,
    http::StatusCode,
    outbox::handlers::verify,
    server::{HostBuilder, RunningHost},
    testing::{Servers, TestClock},
};
use help_desk::{Desk, Status, Ticket};
use serde_json::{Value, json};

const HOUR: Duration = Duration::from_hours(1);

async fn start(host: HostBuilder) -> (RunningHost, Stub<Desk>) {
    let host = host.start().await.expect("a host");
    let desk = host.env().object::<Desk>().get_by_name("support");
    (host, desk)
}

async fn open(desk: &Stub<Desk>, subject: &str) -> Ticket {
    let ticket = desk.create(subject.to_owned(), "ada".to_owned()).await;
    ticket.expect("an answer")
}

async fn ticket(desk: &Stub<Desk>, id: i64) -> Ticket {
    desk.get(id).await.expect("an answer").ticket
}

#[tokio::test]
async fn an_open_ticket_is_escalated_in_time_and_a_closed_one_is_not() {
    let clock = TestClock::new();
    let (host, desk) = start(in_memory(&clock, &Servers::new())).await;
    let (late, done) = (open(&desk, "late").await, open(&desk, "done").await);
    desk.close(done.id).await.expect("an answer");

    clock.advance(Duration::from_secs(3599));
    assert_eq!(ticket(&desk, late.id).await.status, Status::Open);
    clock.advance(Duration::from_secs(1));
    let late = until("an escalation", async || {
        Some(ticket(&desk, late.id).await).filter(|ticket| ticket.status == Status::Escalated)
    });
    let late = late.await;
    assert_eq!(late.escalated_at, i64::try_from(clock.unix_millis()).ok());
    assert_eq!(ticket(&desk, done.id).await.status, Status::Closed);
    host.shutdown().await.expect("an end");
}

#[tokio::test]
async fn a_close_event_is_resent_unchanged_until_the_receiver_takes_it() {
    let clock = TestClock::new();
    let receiver = answering([StatusCode::BAD_GATEWAY, StatusCode::NOT_FOUND]);
    let (host, desk) = start(in_memory(&clock, &receiver)).await;
    let id = open(&desk, "The printer is on fire").await.id;
    desk.close(id).await.expect("an answer");

    // The first attempt is made at once; the next come after 5 s and 5 min, each up to a tenth later.
    let waits = [
        Duration::ZERO,
        Duration::from_millis(5_500),
        Duration::from_secs(330),
    ];
    let mut ids = Vec::new();
    for (attempt, wait) in waits.into_iter().enumerate() {
        if attempt > 0 {
            until("the result of the attempt before", async || {
                is_waiting(&desk, attempt).await.then_some(())
            })
            .await;
            assert_eq!(receiver.received().len(), attempt);
        }
        clock.advance(wait);
        let got = until("an attempt", async || {
            receiver.received().get(attempt).cloned()
        })
        .await;
        let now = i64::try_from(clock.unix_millis() / 1000).expect("a time");
        let secret = SECRET.parse().expect("a secret");
        ids.push(
            verify(&[secret], &got.headers, &got.body, now, 1)
                .expect("a signature")
                .to_owned(),
        );
        let event: Value = serde_json::from_slice(&got.body).expect("JSON");
        assert_eq!(event["type"], "ticket.closed");
        assert_eq!(event["data"]["desk"], "support");
        assert_eq!(event["data"]["ticket"]["status"], "closed");
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    until("the delivery", async || {
        (outbox(&desk).await["status"] == "sent").then_some(())
    })
    .await;
    host.shutdown().await.expect("an end");
}

/// Whether the desk's message waits for its next attempt, after this many.
async fn is_waiting(desk: &Stub<Desk>, attempts: usize) -> bool {
    let message = outbox(desk).await;
    message["status"] == "queued" && message["attempts"] == attempts
}

/// The desk's first message, as operators see it.
async fn outbox(desk: &Stub<Desk>) -> Value {
    let request = abide::Request::get("/messages/1").body(abide::Body::empty());
    let answer = desk
        .untyped()
        .operate("outbox", request.expect("a request"))
        .await;
    let body = axum::body::to_bytes(answer.expect("an answer").into_body(), usize::MAX).await;
    serde_json::from_slice(&body.expect("a body")).expect("JSON")
}

#[tokio::test]
async fn a_live_view_sees_each_change_also_after_its_desk_has_left_memory() {
    let clock = TestClock::new();
    let (host, desk) = start(in_memory(&clock, &Servers::new())).await;
    let first = open(&desk, "first").await;
    let mut view = View::open(host.addr(), "support").await;
    let event = view.event().await.expect("the tickets");
    assert_eq!(
        (&event["type"], &event["tickets"][0]["subject"]),
        (&json!("tickets"), &json!("first"))
    );

    for round in 1..=3 {
        clock.advance(Duration::from_mins(1));
        let admin = host.admin_addr().expect("an admin listener");
        until("a desk that has left memory", async || {
            (resident(admin).await == 0).then_some(())
        })
        .await;

        desk.assign(first.id, format!("agent {round}"))
            .await
            .expect("an answer");
        let event = view.event().await.expect("a change");
        assert_eq!(event["ticket"]["assignee"], format!("agent {round}"));
    }
    desk.comment(first.id, "grace".to_owned(), "Done.".to_owned())
        .await
        .expect("an answer");
    assert_eq!(
        view.event().await,
        Some(json!({ "type": "comment", "ticket": first.id }))
    );

    // An escalation wakes the desk without a call.
    clock.advance(HOUR);
    let event = view.event().await.expect("an escalation");
    assert_eq!(event["ticket"]["status"], "escalated");
    // A host that ends waits for its views.
    drop(view);
    host.shutdown().await.expect("an end");
}

/// The number of objects in memory, from the node's metrics. Read on another thread: the admin listener runs on this one.
async fn resident(admin: SocketAddr) -> u32 {
    let metrics = tokio::task::spawn_blocking(move || {
        let mut answer = ureq::get(format!("http://{admin}/metrics")).call()?;
        answer.body_mut().read_to_string()
    });
    let metrics = metrics.await.expect("no panic").expect("the metrics");
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("abide_objects_resident "));
    line.expect("a number").parse().expect("a number")
}

#[tokio::test]
async fn a_restored_desk_is_as_it_was_and_reports_again_what_is_closed_again() {
    let clock = TestClock::new();
    let receiver = Servers::new();
    let (host, desk) = start(in_memory(&clock, &receiver)).await;
    let id = open(&desk, "first").await.id;
    let before = clock.unix_millis();
    clock.advance(Duration::from_mins(1));
    desk.close(id).await.expect("an answer");
    until("a webhook", async || {
        (receiver.received().len() == 1).then_some(())
    })
    .await;
    let mut view = View::open(host.addr(), "support").await;
    view.event().await.expect("the tickets");

    desk.restore_to(before).await.expect("an answer");
    assert_eq!(view.event().await, None, "the view is told to come back");
    drop(view);
    assert_eq!(ticket(&desk, id).await.status, Status::Open);

    // The timer is back as well, and so is the message: this is another one, with its own key.
    clock.advance(HOUR);
    until("an escalation", async || {
        (ticket(&desk, id).await.status == Status::Escalated).then_some(())
    })
    .await;
    desk.close(id).await.expect("an answer");
    let got = until("another webhook", async || {
        Some(receiver.received()).filter(|got| got.len() == 2)
    })
    .await;
    assert_ne!(got[0].headers["webhook-id"], got[1].headers["webhook-id"]);
    host.shutdown().await.expect("an end");
}

#[tokio::test]
async fn an_event_pending_at_a_restore_is_sent_again_under_its_key() {
    let clock = TestClock::new();
    let receiver = answering([StatusCode::BAD_GATEWAY]);
    let (host, desk) = start(in_memory(&clock, &receiver)).await;
    let id = open(&desk, "first").await.id;
    desk.close(id).await.expect("an answer");
    until("a failed attempt", async || {
        is_waiting(&desk, 1).await.then_some(())
    })
    .await;
    let waiting = clock.unix_millis();
    let sent = async || (outbox(&desk).await["status"] == "sent").then_some(());
    clock.advance(Duration::from_millis(5_500));
    until("a delivery", sent).await;

    desk.restore_to(waiting).await.expect("an answer");
    // It is restored when it is called.
    assert_eq!(ticket(&desk, id).await.status, Status::Closed);
    until("another delivery", async || {
        (receiver.received().len() == 3).then_some(())
    })
    .await;
    until("its result", sent).await;
    let got = receiver.received();
    assert_eq!(got[1].headers["webhook-id"], got[2].headers["webhook-id"]);
    host.shutdown().await.expect("an end");
}
