//! The API and the pages, on the real program's parts: objects, a gateway behind its adapter, and a read model in a file.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod document;
mod figures;
mod lists;
mod refunds;
mod strangers;
mod troubles;
mod world;

use abide::outbox::handlers::Secret;
use billing::{OPENAPI, payment};
use serde_json::{Value, json};

use crate::api::world::{Answer, World, secret};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_created_once_paid_and_seen_on_the_pages() {
    let world = World::new().await;
    let offer = world.offer("card_ok").await;
    let create = || world.ask("POST", "/v1/subscriptions", Some("key-1"), offer.clone());
    let (first, again) = (create().await, create().await);
    assert_eq!((first.status, again.status), (201, 201), "{}", again.text);
    assert_eq!(first.json(), again.json());
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/subscriptions/{id}");
    world.becomes(&path, "active").await;
    let entitlement = world.get(&format!("{path}/entitlement")).await.json();
    assert_eq!(entitlement["entitled"], true);

    let invoice = format!("in_{id}_0");
    let paid = world
        .becomes(&format!("/v1/invoices/{invoice}"), "paid")
        .await;
    assert_eq!(
        paid["data"]["due"],
        json!({ "amount": 2_500, "currency": "EUR" })
    );
    let intent = format!("/v1/payment-intents/pi_{invoice}_1");
    world.becomes(&intent, "succeeded").await;
    assert_eq!(world.gateway.tally().succeeded, 1);
    let history = world.get(&format!("{path}/history")).await.json();
    let outcomes: Vec<_> = history["outcomes"].as_array().unwrap().iter().collect();
    assert_eq!(outcomes[0]["action"], "create");
    assert_eq!(outcomes.last().unwrap()["outcome"], "settled");

    // The pages and the list, from the read model, which comes a moment later.
    let listed = |answer: &Answer| {
        answer.status == 200 && answer.json()["subscriptions"][0]["state"] == "active"
    };
    world.until("/v1/subscriptions?state=active", listed).await;
    let page = world
        .until("/", |answer| answer.text.contains("25.00 EUR"))
        .await;
    assert!(page.text.contains(&id), "{}", page.text);
    let page = world.get(&format!("/subscriptions/{id}")).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("Entitled now") && page.text.contains(&invoice));
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_waits_for_3d_secure_and_a_repeated_webhook_counts_once() {
    let world = World::new().await;
    let id = world
        .create("/v1/subscriptions", world.offer("card_3ds").await)
        .await;
    let intent = format!("/v1/payment-intents/pi_in_{id}_0_1");
    world.becomes(&intent, "requires_action").await;
    let waiting = world.gateway.waiting();
    world.gateway.authenticate(&waiting[0].id, true).unwrap();
    for event in world.gateway.take_events() {
        for _ in 0..3 {
            payment::handle_event(world.host.env(), &event)
                .await
                .unwrap();
        }
    }
    world.becomes(&intent, "succeeded").await;
    world
        .becomes(&format!("/v1/subscriptions/{id}"), "active")
        .await;
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_of_the_gateway_wakes_the_payment_at_once() {
    let world = World::new().await;
    let id = world
        .create("/v1/subscriptions", world.offer("card_3ds").await)
        .await;
    let intent = format!("/v1/payment-intents/pi_in_{id}_0_1");
    world.becomes(&intent, "requires_action").await;
    let waiting = world.gateway.waiting();
    let asked = world.gateway.take_events();
    world.gateway.authenticate(&waiting[0].id, true).unwrap();
    // Waiting alone would take hours.
    world.gateway.send_events(&secret(), &world.router).await;
    world.becomes(&intent, "succeeded").await;
    let subscription = format!("/v1/subscriptions/{id}");
    world.becomes(&subscription, "active").await;

    // What comes late, or again, changes nothing.
    let before = (
        world.get(&intent).await.text,
        world.get(&subscription).await.text,
    );
    for event in &asked {
        for _ in 0..2 {
            assert_eq!(world.event(event, &secret(), 0).await, 204);
        }
    }
    let after = (
        world.get(&intent).await.text,
        world.get(&subscription).await.text,
    );
    assert_eq!(before, after);
    assert_eq!(world.gateway.tally().succeeded, 1);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_not_the_gateways_is_not_heard() {
    let world = World::new().await;
    let id = world
        .create("/v1/subscriptions", world.offer("card_3ds").await)
        .await;
    let intent = format!("/v1/payment-intents/pi_in_{id}_0_1");
    world.becomes(&intent, "requires_action").await;
    let event = world.gateway.take_events().remove(0);
    let other = Secret::new([7; 32]).unwrap();
    assert_eq!(world.event(&event, &other, 0).await, 401);
    assert_eq!(world.event(&event, &secret(), 400).await, 401);
    assert_eq!(world.event(&event, &secret(), -400).await, 401);
    let unsigned = world
        .ask("POST", "/v1/gateway/events", None, json!(event))
        .await;
    assert_eq!(unsigned.status, 401);
    assert_eq!(unsigned.json()["error"]["code"], "not_verified");
    assert_eq!(world.event(&event, &secret(), 0).await, 204);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invoice_whose_payment_failed_is_paid_by_hand_once() {
    let world = World::new().await;
    let offer = world.offer("card_declined").await;
    let customer = offer["customer"].as_str().unwrap().to_owned();
    let id = world.create("/v1/subscriptions", offer).await;
    let invoice = format!("/v1/invoices/in_{id}_0");
    let failed = |answer: &Answer| {
        let owed = &answer.json()["data"]["owed"][format!("in_{id}_0")];
        owed["failed"] == 1
    };
    let path = format!("/v1/subscriptions/{id}");
    world.until(&path, failed).await;
    let card = json!({ "payment_method": "card_ok" });
    let set = format!("/v1/customers/{customer}/payment-method");
    let set = world.ask("POST", &set, None, card).await;
    assert_eq!(set.status, 200, "{}", set.text);

    let pay = format!("{invoice}/pay");
    for _ in 0..2 {
        let answer = world.post(&pay, Some("pay-1")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    world.becomes(&invoice, "paid").await;
    world.becomes(&path, "active").await;
    assert_eq!(world.gateway.tally().succeeded, 1);

    let again = world.post(&pay, None).await;
    assert_eq!(again.status, 409, "{}", again.text);
    assert!(
        again.text.contains("the invoice is `paid`"),
        "{}",
        again.text
    );
    let nobodys = world.post("/v1/invoices/in_nobody/pay", None).await;
    assert_eq!(nobodys.status, 404, "{}", nobodys.text);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_is_registered_once_and_shows_its_secret_that_once() {
    let world = World::new().await;
    let new = json!({ "url": "http://hooks.test/billing", "events": ["product.created"] });
    let register = async |key, body: &Value| {
        world
            .ask("POST", "/v1/webhook-endpoints", key, body.clone())
            .await
    };
    let first = register(Some("hook-1"), &new).await;
    let again = register(Some("hook-1"), &new).await;
    assert_eq!((first.status, &first.text), (201, &again.text));
    let registered = first.json();
    let secret = registered["secret"].as_str().unwrap();
    secret.parse::<Secret>().unwrap();
    let id = registered["id"].as_str().unwrap();
    let path = format!("/v1/webhook-endpoints/{id}");
    let listed = world.get("/v1/webhook-endpoints").await;
    for answer in [&listed, &world.get(&path).await] {
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert!(answer.text.contains(id) && !answer.text.contains(secret));
    }
    assert_eq!(listed.json()["endpoints"].as_array().unwrap().len(), 1);

    // What goes there is seen in its outbox.
    world
        .create("/v1/products", json!({ "name": "Seats" }))
        .await;
    let messages = format!("/outbox/{id}/messages");
    let told = |answer: &Answer| answer.text.contains("product.created to http://hooks.test");
    world.until(&messages, told).await;

    for wrong in [
        json!({ "url": "hooks.test" }),
        json!({ "url": "http://hooks.test", "events": ["product.lost"] }),
        json!({ "url": "http://hooks.test", "secret": "guess" }),
    ] {
        let refused = register(None, &wrong).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
    }
    let delete = world.ask("DELETE", &path, None, Value::Null).await;
    assert_eq!(delete.status, 200, "{}", delete.text);
    assert_eq!(world.get(&path).await.status, 404);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_are_replayed_and_checked_and_the_read_model_is_made_anew() {
    let world = World::new().await;
    let id = world
        .create("/v1/subscriptions", world.offer("card_ok").await)
        .await;
    let path = format!("/v1/subscriptions/{id}");
    world.becomes(&path, "active").await;
    let first = world.get(&format!("{path}/replay?until=1")).await;
    assert_eq!(first.status, 200, "{}", first.text);
    assert!(first.text.contains("incomplete") && !first.text.contains("invoiced"));
    let whole = world.get(&format!("{path}/replay")).await;
    assert!(whole.text.contains("invoiced") && whole.text.contains("settled"));
    let refused = world.get(&format!("{path}/replay?until=noon")).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    let outcomes = world.get(&path).await.json()["seq"].clone();
    let checked = world.get(&format!("{path}/check")).await;
    assert_eq!(checked.json()["outcomes"], outcomes);

    let listed = |answer: &Answer| {
        answer.status == 200 && answer.json()["subscriptions"][0]["state"] == "active"
    };
    let shown = "/v1/subscriptions";
    world.until(shown, listed).await;
    let before = world.get(shown).await.text;
    // Product, price, customer, subscription, invoice, payment.
    for (path, resources) in [("/v1/check", 6), ("/v1/read-model/rebuild", 6)] {
        let lines = world.post(path, None).await;
        assert_eq!(lines.status, 200, "{}", lines.text);
        let last = lines.text.lines().last().unwrap();
        let last: Value = serde_json::from_str(last).unwrap();
        assert_eq!(last["done"], resources, "{path}: {last}");
        assert_eq!(last["failed"], 0, "{path}: {last}");
    }
    assert_eq!(world.get(shown).await.text, before);
    let lag = world.get("/v1/read-model").await.json();
    assert_eq!(lag["dead"], 0);
    world
        .until("/", |page| {
            page.text.contains("These numbers are up to date.")
        })
        .await;
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_and_forbidden_requests_are_refused_with_a_sentence() {
    let world = World::new().await;
    let offer = world.offer("card_ok").await;
    let id = world.create("/v1/subscriptions", offer.clone()).await;
    let path = format!("/v1/subscriptions/{id}");
    world.becomes(&path, "active").await;
    let post = async |path: &str, body: Value| world.ask("POST", path, None, body).await;
    let mut nobody = offer.clone();
    nobody["customer"] = json!("cus_nobody");
    let mut none = offer.clone();
    none["quantity"] = json!(0);
    for (path, body, status, code) in [
        ("/v1/products", json!({ "name": "" }), 400, "invalid"),
        ("/v1/subscriptions", nobody, 404, "not_found"),
        ("/v1/subscriptions", none, 400, "invalid"),
        (&*format!("{path}/resume"), Value::Null, 409, "not_allowed"),
        ("/v1/nothing", json!({}), 404, "not_found"),
    ] {
        let answer = post(path, body).await;
        let error = answer.json()["error"].clone();
        assert_eq!(
            (answer.status, &error["code"]),
            (status, &json!(code)),
            "{path}: {error}"
        );
        assert!(error["message"].as_str().unwrap().len() > 10);
    }
    for (path, status) in [
        ("/v1/subscriptions/sub_nobody", 404),
        ("/v1/subscriptions/in_1", 404),
        ("/subscriptions/sub_nobody", 404),
        ("/subscriptions?state=asleep", 400),
        ("/nowhere", 404),
    ] {
        assert_eq!(world.get(path).await.status, status, "{path}");
    }
    let ended = post(&format!("{path}/cancel"), json!({ "at": "now" })).await;
    assert_eq!(ended.json()["state"], "canceled");
    let entitlement = world.get(&format!("{path}/entitlement")).await.json();
    assert_eq!(entitlement["entitled"], false);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_no_subscription_has_is_refused_with_those_that_there_are() {
    let world = World::new().await;
    for path in ["/v1/subscriptions", "/subscriptions"] {
        let refused = world.get(&format!("{path}?state=bogus")).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text);
        for named in ["bogus", "incomplete_expired", "trialing", "past_due"] {
            assert!(refused.text.contains(named), "{path}: {}", refused.text);
        }
        assert!(!refused.text.contains("absent"), "{}", refused.text);
        let taken = world.get(&format!("{path}?state=past_due")).await;
        assert_eq!(taken.status, 200, "{path}: {}", taken.text);
    }
    assert_eq!(world.get("/v1/subscriptions?state=").await.status, 400);
    assert_eq!(world.get("/subscriptions?state=").await.status, 200);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_for_programs_is_served_and_names_what_there_is() {
    let world = World::new().await;
    let served = world.get("/v1/openapi.json").await;
    assert_eq!(served.text, OPENAPI);
    let document = served.json();
    for (path, item) in document["paths"].as_object().unwrap() {
        let path = path
            .replace("{kind}", "products")
            .replace("{id}", "prod_nobody");
        for method in item
            .as_object()
            .unwrap()
            .keys()
            .filter(|name| *name != "parameters")
        {
            let answer = world
                .ask(&method.to_uppercase(), &path, None, Value::Null)
                .await;
            assert_ne!(answer.status, 405, "{method} {path}");
            assert!(
                !answer.text.contains("There is no such resource.\""),
                "{method} {path}"
            );
        }
    }
    world.host.shutdown().await.unwrap();
}
