use abide::{
    outbox::handlers::{Secret, StaticSecrets, Webhook, WebhookDelivery, verify},
    outbox::{Deliver, FailureKind, RetryPolicy, Submitted},
};
use abide_harness::{Receiver, ReceiverAct};
use serde_json::{Value, json};

use crate::handlers::{KEY, attempt, failed, host};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn secret(text: &str) -> Secret {
    text.parse().unwrap()
}

fn event(receiver: &Receiver) -> Webhook {
    Webhook::new(
        receiver.url("/hooks"),
        "seat.taken",
        &json!({ "seat": "14C" }),
    )
    .unwrap()
}

/// While the secret is replaced.
fn handler(receiver: &Receiver) -> WebhookDelivery {
    let secrets = [secret(NEW), secret(OLD)];
    WebhookDelivery::new(StaticSecrets::new().with(receiver.url("/hooks"), secrets))
}

#[tokio::test]
async fn a_receiver_with_the_old_or_the_new_secret_trusts_a_webhook() {
    let (host, receiver) = (host().await, Receiver::start().await);
    let (handler, event) = (handler(&receiver), event(&receiver));
    assert_eq!(handler.check(&event), Ok(()));
    let delivery = attempt(&host);
    assert_eq!(handler.submit(&delivery, &event).await, Ok(Submitted::Done));
    let got = &receiver.received()[0];
    let now = delivery.now() / 1_000;
    for known in [OLD, NEW] {
        let id = verify(&[secret(known)], &got.headers, &got.body, now, 300);
        assert_eq!(id, Ok(KEY));
    }
    let body = got.json();
    assert_eq!(body["type"], "seat.taken");
    assert_eq!(body["data"], json!({ "seat": "14C" }));
    assert!(matches!(&body["timestamp"], Value::String(at) if at.ends_with('Z')));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn every_attempt_has_the_same_id_and_body() {
    let (host, receiver) = (host().await, Receiver::start().await);
    receiver.script([ReceiverAct::status(500), ReceiverAct::lost()]);
    let (handler, event) = (handler(&receiver), event(&receiver));
    let first = attempt(&host);
    failed(
        handler.submit(&first, &event).await,
        FailureKind::Temporary,
        "500",
    );
    let second = first.again(true);
    failed(
        handler.submit(&second, &event).await,
        FailureKind::Temporary,
        "",
    );
    assert!(handler.submit(&second.again(true), &event).await.is_ok());
    let got = receiver.received();
    assert_eq!(got.len(), 3);
    assert!(
        got.iter()
            .all(|one| one.key() == KEY && one.body == got[0].body)
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_is_gone_wants_no_more() {
    let (host, receiver) = (host().await, Receiver::start().await);
    receiver.script([ReceiverAct::status(410)]);
    let submitted = handler(&receiver)
        .submit(&attempt(&host), &event(&receiver))
        .await;
    failed(submitted, FailureKind::Permanent, "wants no more");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_endpoint_without_a_secret_and_an_event_without_a_type_are_refused() {
    let receiver = Receiver::start().await;
    let none = WebhookDelivery::new(|_: &str| Vec::new());
    let refused = none.check(&event(&receiver)).unwrap_err();
    assert!(refused.contains("no secret for the endpoint"), "{refused}");
    let nameless = Webhook {
        event: String::new(),
        ..event(&receiver)
    };
    assert!(
        handler(&receiver)
            .check(&nameless)
            .unwrap_err()
            .contains("type")
    );
    assert_eq!(none.retry(), Some(RetryPolicy::webhooks()));
}

#[tokio::test]
async fn a_receiver_that_has_lost_its_route_for_a_while_is_tried_again() {
    let (host, receiver) = (host().await, Receiver::start().await);
    for status in [400, 401, 403, 404, 409] {
        receiver.script([ReceiverAct::status(status)]);
        let submitted = handler(&receiver)
            .submit(&attempt(&host), &event(&receiver))
            .await;
        // Standard Webhooks: any other status is a failure, and failures follow the schedule.
        let failure = submitted.unwrap_err();
        assert_ne!(failure.kind(), FailureKind::Permanent, "{failure:?}");
    }
    host.shutdown().await.unwrap();
}

#[test]
fn tenants_of_one_host_are_separate_destinations_of_one_origin() {
    let handler = WebhookDelivery::new(StaticSecrets::new());
    let to = |url: &str| Webhook::new(url, "seat.taken", &json!({})).unwrap();
    let ada = to("https://hooks.example.com/ada?token=secret");
    let bob = to("https://hooks.example.com/ada?token=other");
    let eve = to("https://hooks.example.com/eve");
    let names = [&ada, &bob, &eve].map(|event| handler.destination(event));
    assert_eq!(names[2], "https://hooks.example.com/eve");
    assert_ne!(names[0], names[1]);
    assert!(
        names.iter().all(|name| !name.contains("token")),
        "{names:?}"
    );
    for event in [&ada, &bob, &eve] {
        let origin = handler.origin(event);
        assert_eq!(origin.as_deref(), Some("https://hooks.example.com"));
    }
    let long = to(&format!("https://hooks.example.com/{}", "x".repeat(5_000)));
    assert!(handler.destination(&long).len() <= 300);
    assert!(
        handler.keeps_key(),
        "`webhook-id` stays when a message is sent again"
    );
}
