//! Lists, metadata, previews and the test clock over HTTP.

use abide::clock::Clock;
use billing::test_clock::TestModeClock;
use serde_json::{Value, json};

use crate::api::world::{Answer, World};

fn ids(answer: &Answer, field: &str) -> Vec<String> {
    let items = answer.json()[field].clone();
    let items = items.as_array().unwrap().iter();
    items
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_is_listed_by_pages_and_what_is_asked_for() {
    let world = World::new().await;
    let offer = world.offer("card_ok").await;
    let id = world.create("/v1/subscriptions", offer.clone()).await;
    let other = world.create("/v1/subscriptions", offer.clone()).await;
    let intent = format!("pi_in_{id}_0_1");
    for subscription in [&id, &other] {
        world
            .becomes(&format!("/v1/subscriptions/{subscription}"), "active")
            .await;
    }
    let refunds = format!("/v1/payment-intents/{intent}/refunds");
    let refund = world.create(&refunds, json!({})).await;
    for (path, field, many) in [
        ("products", "products", 1),
        ("prices", "prices", 1),
        ("customers", "customers", 1),
        ("subscriptions?state=active", "subscriptions", 2),
        ("invoices?state=paid", "invoices", 2),
        ("payment-intents?state=succeeded", "payment_intents", 2),
        ("refunds?state=succeeded", "refunds", 1),
    ] {
        let all = |answer: &Answer| answer.status == 200 && ids(answer, field).len() == many;
        world.until(&format!("/v1/{path}"), all).await;
    }
    let of = world
        .get(&format!("/v1/payment-intents?subscription={id}"))
        .await;
    assert_eq!(ids(&of, "payment_intents"), [intent]);
    let of = world
        .get(&format!("/v1/refunds?subscription={other}"))
        .await;
    assert_eq!(ids(&of, "refunds"), [""; 0]);
    let customer = offer["customer"].as_str().unwrap();
    let of = world.get(&format!("/v1/refunds?customer={customer}")).await;
    assert_eq!(ids(&of, "refunds"), [refund]);

    // Pages, and the times between which they were created.
    let first = world.get("/v1/invoices?limit=1").await;
    let next = first.json()["next"].as_str().unwrap().to_owned();
    let second = world
        .get(&format!("/v1/invoices?limit=1&after={next}"))
        .await;
    assert_eq!(second.json()["next"], Value::Null);
    let mut both = [ids(&first, "invoices"), ids(&second, "invoices")].concat();
    both.sort();
    let mut wanted = [format!("in_{id}_0"), format!("in_{other}_0")];
    wanted.sort();
    assert_eq!(both, wanted);
    let created = first.json()["invoices"][0]["created_at"].as_i64().unwrap();
    let before = world
        .get(&format!("/v1/invoices?created_before={created}&limit=100"))
        .await;
    let since = world
        .get(&format!("/v1/invoices?created_from={created}"))
        .await;
    let many = (
        ids(&before, "invoices").len(),
        ids(&since, "invoices").len(),
    );
    assert_eq!(many.0 + many.1, 2, "{many:?}");
    for wrong in [
        "invoices?state=active",
        "invoices?limit=101",
        "invoices?limit=0",
        "invoices?colour=red",
    ] {
        let refused = world.get(&format!("/v1/{wrong}")).await;
        assert!(
            matches!(refused.status, 400 | 422),
            "{wrong}: {}",
            refused.text
        );
    }
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_is_kept_on_every_kind_and_listed() {
    let world = World::new().await;
    let product = json!({ "name": "Seats", "metadata": { "sku": "7", "colour": "red" } });
    let product = world.create("/v1/products", product).await;
    let path = format!("/v1/products/{product}");
    let metadata = format!("{path}/metadata");
    let change = json!({ "sku": "8", "colour": null });
    let noted = world.ask("POST", &metadata, Some("one"), change.clone());
    assert_eq!(
        noted.await.json()["data"]["metadata"],
        json!({ "sku": "8" })
    );
    let seq = world.get(&path).await.json()["seq"].clone();
    let noted = world.ask("POST", &metadata, Some("one"), change);
    assert_eq!(noted.await.json()["seq"], seq);
    let listed =
        |answer: &Answer| answer.json()["products"][0]["metadata"] == json!({ "sku": "8" });
    world.until("/v1/products", listed).await;

    let mut offer = world.offer("card_ok").await;
    offer["metadata"] = json!({ "order": "A-1" });
    offer["grace_days"] = json!(20);
    let id = world.create("/v1/subscriptions", offer).await;
    let view = world
        .becomes(&format!("/v1/subscriptions/{id}"), "active")
        .await;
    assert_eq!(view["data"]["metadata"]["order"], "A-1");
    assert_eq!(view["data"]["terms"]["grace_days"], 20);
    let intent = format!("pi_in_{id}_0_1");
    let refund = world
        .create(&format!("/v1/payment-intents/{intent}/refunds"), json!({}))
        .await;
    world
        .becomes(&format!("/v1/refunds/{refund}"), "succeeded")
        .await;
    for path in [
        format!("subscriptions/{id}"),
        format!("invoices/in_{id}_0"),
        format!("payment-intents/{intent}"),
        format!("refunds/{refund}"),
    ] {
        let metadata = format!("/v1/{path}/metadata");
        let noted = world
            .ask("POST", &metadata, None, json!({ "ticket": "12" }))
            .await;
        assert_eq!(
            noted.json()["data"]["metadata"]["ticket"],
            "12",
            "{}",
            noted.text
        );
        assert_eq!(world.get(&format!("/v1/{path}/check")).await.status, 200);
    }
    let long = json!({ "key": "x".repeat(501) });
    let refused = world.ask("POST", &metadata, None, long).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    let many: serde_json::Map<_, _> = (0..51)
        .map(|number| (number.to_string(), json!("x")))
        .collect();
    let refused = world.ask("POST", &metadata, None, many.into()).await;
    assert!(refused.status >= 400, "{}", refused.text);
    let odd = json!({ "name": "Seats", "colour": "red", "metadata": {} });
    let refused = world.ask("POST", "/v1/products", None, odd).await;
    assert!(refused.text.contains("colour"), "{}", refused.text);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_will_be_is_shown_and_the_test_clock_brings_it() {
    let dir = tempfile::tempdir().unwrap();
    let clock = TestModeClock::open(dir.path()).unwrap();
    let world = World::at(Some(clock.clone())).await;
    let offer = world.offer("card_ok").await;
    let id = world.create("/v1/subscriptions", offer.clone()).await;
    let path = format!("/v1/subscriptions/{id}");
    world.becomes(&path, "active").await;
    let next = world.get(&format!("{path}/upcoming-invoice")).await.json();
    assert_eq!(next["upcoming"]["totals"]["due"]["amount"], 2_500);
    assert_eq!(next["upcoming"]["invoice"], format!("in_{id}_1"));
    let change = json!({ "price": offer["price"], "quantity": 4 });
    let seq = world.get(&path).await.json()["seq"].clone();
    let preview = world
        .ask("POST", &format!("{path}/change/preview"), None, change)
        .await;
    let due = &preview.json()["upcoming"]["totals"]["due"]["amount"];
    assert!(
        (7_498..=7_500).contains(&due.as_i64().unwrap()),
        "{}",
        preview.text
    );
    assert_eq!(
        world.get(&path).await.json()["seq"],
        seq,
        "nothing was changed"
    );

    let at = next["upcoming"]["at"].as_i64().unwrap();
    let shown = world.get("/v1/test-clock").await.json();
    let left = (at - shown["now"].as_i64().unwrap()) / 1_000 + 60;
    let moved = world.ask(
        "POST",
        "/v1/test-clock/advance",
        None,
        json!({ "seconds": left }),
    );
    assert!(moved.await.json()["now"].as_i64().unwrap() > at);
    assert!(i64::try_from(clock.unix_millis()).unwrap() > at);
    world
        .becomes(&format!("/v1/invoices/in_{id}_1"), "paid")
        .await;
    let far = json!({ "seconds": 100_000_000 });
    let refused = world.ask("POST", "/v1/test-clock/advance", None, far).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    world.host.shutdown().await.unwrap();

    let world = World::new().await;
    assert_eq!(world.get("/v1/test-clock").await.status, 404);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_page_after_the_end_is_empty() {
    let world = World::new().await;
    let id = world.create("/v1/products", json!({"name": "Tea"})).await;
    for after in ["1", "2", "25", "9223372036854775807"] {
        let path = format!("/v1/products/{id}/history?after={after}");
        let page = world.get(&path).await;
        assert_eq!((page.status, page.json()), (200, json!({"outcomes": []})));
    }
    let whole = world.get(&format!("/v1/products/{id}/history")).await;
    assert_eq!(whole.json()["outcomes"].as_array().unwrap().len(), 1);
    for wrong in ["after=-1", "limit=1001"] {
        let path = format!("/v1/products/{id}/history?{wrong}");
        assert_eq!(world.get(&path).await.status, 400, "{wrong}");
    }
    let absent = "prod_00000000000000000000000000000000";
    for after in [0, 25] {
        let path = format!("/v1/products/{absent}/history?after={after}");
        assert_eq!(world.get(&path).await.status, 404, "{after}");
    }
    world.host.shutdown().await.unwrap();
}
