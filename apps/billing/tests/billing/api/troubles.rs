//! Work that is stuck is listed and can be resumed.

use abide::{
    queue::{Queue, QueueMessage},
    workflow::Workflows,
};
use billing::{
    Money,
    host::QUEUE,
    payment::{Order, Payment},
    resources::{Customer, Invoice},
    states::{Draft, NewIntent},
};
use serde_json::{Value, json};

use crate::api::world::{Answer, World};

const CUSTOMER: &str = "cus_late";
const PAYMENT: &str = "pi_in_sub_none_0_1";

/// A payment of a customer who is not there, and of an invoice that is not.
fn order() -> Order {
    let intent = NewIntent {
        invoice: "in_sub_none_0".into(),
        subscription: "sub_none".into(),
        customer: CUSTOMER.into(),
        attempt: 1,
        amount: Money::new(1_250, "EUR".parse().unwrap()).unwrap(),
    };
    Order {
        id: PAYMENT.into(),
        intent,
    }
}

/// Whether the payment has failed with this.
fn fails_with(answer: &Answer, text: &str) -> bool {
    let payment = answer.json()["payments"][0].clone();
    let error = payment["error"].as_str().unwrap_or_default();
    payment["id"] == PAYMENT && payment["status"] == "failed" && error.contains(text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_payment_is_listed_and_resumes_from_its_failed_step() {
    let world = World::new().await;
    let none = world.get("/v1/troubles").await.json();
    assert_eq!(
        none,
        json!({ "payments": [], "refunds": [], "timers": [], "more": false, "dead": 0 })
    );
    assert!(!world.get("/").await.text.contains("stalled"));

    let env = world.host.env();
    let payments = Workflows::<Payment>::new(env);
    payments.start(PAYMENT, &order()).await.unwrap();
    let troubles = "/v1/troubles";
    let seen = |answer: &Answer| fails_with(answer, "There is no customer");
    let seen = world.until(troubles, seen).await.json();
    assert!(seen["payments"][0]["since"].as_i64().unwrap() > 0);
    let page = world.get("/").await;
    let line = "1 payment is stalled.";
    assert!(page.text.contains(line), "{}", page.text);

    // What it lacked is there: it continues, to what it lacks next.
    let customer = env.object::<Customer>().get_by_name(CUSTOMER);
    let data = json!({ "name": "Ada", "email": "ada@example.com", "payment_method": "card_ok" });
    let created = customer.transition("create".into(), "created".into(), data);
    created.await.unwrap();
    let resume = format!("/v1/payment-intents/{PAYMENT}/resume");
    let resumed = world.post(&resume, None).await;
    assert_eq!(resumed.status, 200, "{}", resumed.text);
    assert_eq!(resumed.json()["id"], PAYMENT);
    let next = |answer: &Answer| fails_with(answer, "in_sub_none_0");
    world.until(troubles, next).await;
    assert_eq!(world.gateway.tally().succeeded, 1);
    // Again, but not what has succeeded.
    assert_eq!(world.post(&resume, None).await.status, 200);
    world.until(troubles, next).await;
    assert_eq!(world.gateway.tally().succeeded, 1);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_has_not_failed_is_not_resumed() {
    let world = World::new().await;
    let offer = world.offer("card_ok").await;
    let id = world.create("/v1/subscriptions", offer).await;
    let intent = format!("/v1/payment-intents/pi_in_{id}_0_1");
    let resume = format!("{intent}/resume");
    let path = format!("/v1/subscriptions/{id}");
    world.becomes(&path, "active").await;
    let before = world.get(&intent).await.text;
    let refused = world.post(&resume, None).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert_eq!(world.get(&intent).await.text, before);
    let nobody = world
        .post("/v1/payment-intents/pi_nobody/resume", None)
        .await;
    assert_eq!(nobody.status, 404, "{}", nobody.text);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_read_model_does_not_take_is_counted() {
    let world = World::new().await;
    let queue = Queue::new(world.host.env(), QUEUE).unwrap();
    let odd = QueueMessage::new(&json!({ "no": "row" })).unwrap();
    queue.send(odd).await.unwrap();
    world
        .until("/v1/troubles", |answer| answer.json()["dead"] == 1)
        .await;
    world.host.shutdown().await.unwrap();
}

/// A subscription, which has the same id in each world.
async fn subscribed(world: &World) -> String {
    let offer = world.offer("card_ok").await;
    let created = world.ask("POST", "/v1/subscriptions", Some("one"), offer);
    let created = created.await;
    assert_eq!(created.status, 201, "{}", created.text);
    created.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriptions_timers_are_shown_and_so_is_one_that_has_failed() {
    let world = World::new().await;
    let id = subscribed(&world).await;
    let path = format!("/v1/subscriptions/{id}");
    let subscription = world.becomes(&path, "active").await;
    let period = |answer: &Answer| -> Value {
        let timers = answer.json()["timers"].clone();
        let mut timers = timers.as_array().unwrap().iter();
        let timer = timers.find(|timer| timer["name"] == "period").cloned();
        timer.unwrap_or_default()
    };
    let timers = format!("{path}/timers");
    let next = period(&world.get(&timers).await);
    assert_eq!(next["phase"], "waiting", "{next} {subscription}");
    assert!(next["due"].as_i64().unwrap() > 0 && next["error"].is_null());
    let history = format!("/v1/invoices/in_{id}_0/history");
    let history = world.get(&history).await.json();
    let draft: Draft = serde_json::from_value(history["outcomes"][0]["data"].clone()).unwrap();
    world.host.shutdown().await.unwrap();

    // Its invoice exists, and belongs to another customer.
    let world = World::new().await;
    let invoice = world.host.env().object::<Invoice>();
    let invoice = invoice.get_by_name(&format!("in_{id}_0"));
    let other = Draft {
        customer: "cus_other".into(),
        ..draft
    };
    invoice.create(other).await.unwrap();
    assert_eq!(subscribed(&world).await, id);
    let failed = |answer: &Answer| {
        let timers = answer.json()["timers"].clone();
        let mut timers = timers.as_array().unwrap().iter();
        timers.any(|timer| {
            let error = timer["error"].as_str().unwrap_or_default();
            timer["phase"] == "failed" && error.contains("different content")
        })
    };
    world.until(&timers, failed).await;
    // The list of troubles has it.
    let listed = |answer: &Answer| {
        let timer = answer.json()["timers"][0].clone();
        let error = timer["error"].as_str().unwrap_or_default();
        timer["subscription"] == id.as_str() && error.contains("different content")
    };
    let troubles = world.get("/v1/troubles").await;
    assert!(listed(&troubles), "{}", troubles.text);
    let troubles = troubles.json();
    assert!(world.get("/").await.text.contains("1 timer is stalled."));
    let name = troubles["timers"][0]["timer"]
        .as_str()
        .unwrap()
        .replace(' ', "%20");
    let retry = format!("{timers}/{name}/retry");
    assert_eq!(world.post(&retry, None).await.status, 200);
    world.until("/v1/troubles", listed).await;
    let unknown = world.post(&format!("{timers}/period/retry"), None).await;
    assert_eq!(unknown.status, 400, "{}", unknown.text);
    let nobody = world.get("/v1/subscriptions/sub_nobody/timers").await;
    assert_eq!(nobody.status, 404, "{}", nobody.text);
    world.host.shutdown().await.unwrap();
}
