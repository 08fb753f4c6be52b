//! Refunds and credit notes over HTTP.

use serde_json::json;

use crate::api::world::{World, secret};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_counts_once_is_seen_and_its_gateways_webhook_wakes_it() {
    let world = World::new().await;
    let offer = world.offer("card_slow").await;
    let id = world.create("/v1/subscriptions", offer).await;
    let intent = format!("/v1/payment-intents/pi_in_{id}_0_1");
    // A slow payment is asked about after 10 and 20 seconds: meanwhile nothing can be refunded.
    world.becomes(&intent, "processing").await;
    let refunds = format!("{intent}/refunds");
    let early = world.ask("POST", &refunds, None, json!({})).await;
    assert_eq!(early.status, 409, "{}", early.text);
    assert_eq!(world.get(&refunds).await.json()["left"]["amount"], 0);

    let world = World::new().await;
    let offer = world.offer("card_ok").await;
    let id = world.create("/v1/subscriptions", offer).await;
    let intent = format!("/v1/payment-intents/pi_in_{id}_0_1");
    world
        .becomes(&format!("/v1/subscriptions/{id}"), "active")
        .await;
    let refunds = format!("{intent}/refunds");
    let some = json!({ "amount": { "amount": 1_000, "currency": "EUR" }, "reason": "a mistake" });
    let ask = || world.ask("POST", &refunds, Some("one"), some.clone());
    let (first, again) = (ask().await, ask().await);
    assert_eq!((first.status, again.status), (201, 201), "{}", again.text);
    let refund = first.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(again.json()["id"], refund);
    let path = format!("/v1/refunds/{refund}");
    let back = world.becomes(&path, "succeeded").await;
    assert_eq!(
        back["data"]["terms"]["payment_intent"],
        format!("pi_in_{id}_0_1")
    );
    let listed = world.until(&refunds, |answer| {
        answer.json()["refunds"][0]["succeeded"] == true
    });
    assert_eq!(listed.await.json()["left"]["amount"], 1_500);
    world.gateway.send_events(&secret(), &world.router).await;
    let much = json!({ "amount": { "amount": 1_501, "currency": "EUR" } });
    let refused = world.ask("POST", &refunds, None, much).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    for wrong in [json!({ "much": 1 }), json!({ "to": "me" })] {
        let refused = world.ask("POST", &refunds, None, wrong).await;
        assert!(matches!(refused.status, 400 | 422), "{}", refused.text);
    }
    let check = world.get(&format!("{path}/check")).await;
    assert_eq!(check.json()["outcomes"], 3);

    let notes = format!("/v1/invoices/in_{id}_0/credit-notes");
    let ask = || world.ask("POST", &notes, Some("two"), json!({ "to": "balance" }));
    // What the refund has given back is not there any more.
    assert_eq!(ask().await.status, 400);
    let rest = json!({ "to": "balance", "amount": { "amount": 1_500, "currency": "EUR" } });
    let ask = || world.ask("POST", &notes, Some("three"), rest.clone());
    let (first, again) = (ask().await, ask().await);
    assert_eq!((first.status, again.status), (201, 201), "{}", first.text);
    let listed = world.get(&notes).await.json();
    assert_eq!(
        listed["credit_notes"].as_array().unwrap().len(),
        1,
        "{listed}"
    );
    assert_eq!(listed["credit_notes"][0]["effect"], "credited");
    let subscription = format!("/v1/subscriptions/{id}");
    let credited = |answer: &crate::api::world::Answer| {
        answer.json()["data"]["pending"][0]["amount"]["amount"] == -1_500
    };
    world.until(&subscription, credited).await;
    assert_eq!(world.gateway.refunds().len(), 1);
    world.host.shutdown().await.unwrap();
}
