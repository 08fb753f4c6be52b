//! The pages in a real browser, of the real program with its gateway that misbehaves.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::time::Duration;

use abide_harness::{Browser, Client, Page, Program, Version, axe};
use serde_json::{Value, json};

/// What has not come after this time never will.
const PATIENCE: Duration = Duration::from_mins(3);

async fn create(client: &Client, path: &str, body: Value) -> String {
    let answer = client.post(path, &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body["id"].as_str().unwrap().to_owned()
}

/// A subscription of a customer with a card.
async fn subscribe(client: &Client, price: &str, card: &str) -> String {
    let customer = json!({ "name": "Ada", "email": "ada@example.com", "payment_method": card });
    let customer = create(client, "/v1/customers", customer).await;
    let new = json!({ "customer": customer, "price": price });
    create(client, "/v1/subscriptions", new).await
}

async fn until(client: &Client, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let asks = async {
        loop {
            let answer = client.get(path).await;
            if is_so(&answer.body) {
                return answer.body;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asks)
        .await
        .unwrap_or_else(|_| panic!("timed out at {path}"))
}

/// Waits until an element says something.
async fn says(page: &Page, element: &str, text: &str) {
    let (element, text) = (Value::from(element), Value::from(text));
    page.until(&format!(
        "document.querySelector({element})?.textContent.includes({text})"
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn the_overview_shows_figures_and_a_subscription_shows_its_chain() {
    let dir = tempfile::tempdir().unwrap();
    let server = Program::new(env!("CARGO_BIN_EXE_billing"), dir.path().join("data")).start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    says(&page, ".empty", "No subscriptions yet.").await;
    axe(&page, "billing-empty").await;

    let product = create(&client, "/v1/products", json!({ "name": "Gold" })).await;
    let price = json!({
        "product": product,
        "unit_amount": { "amount": 1_250, "currency": "EUR" },
        "every": { "count": 1, "unit": "month" },
    });
    let price = create(&client, "/v1/prices", price).await;
    let paid = subscribe(&client, &price, "card_ok").await;
    let failed = subscribe(&client, &price, "card_declined").await;
    until(&client, &format!("/v1/subscriptions/{paid}"), |answer| {
        answer["state"] == "active"
    })
    .await;
    let owed = format!("in_{failed}_0");
    until(&client, &format!("/v1/invoices/{owed}"), |answer| {
        answer["data"]["failures"] == 1
    })
    .await;
    until(&client, "/v1/read-model", |lag| lag["waiting"] == 0).await;

    // The read model comes a moment later.
    let shown = "document.querySelector('.tiles [data-state=active] b').textContent === '1' && \
                 document.querySelector('.tiles [data-state=incomplete] b').textContent === '1' && \
                 document.querySelector('.cohort tbody td:nth-child(2)')?.textContent === '1'";
    let seen = async {
        while page.eval(shown).await != true {
            page.go(&client.url("/")).await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.unwrap();
    says(&page, ".revenue .figure", "12.50 EUR").await;
    says(&page, ".lag", "up to date").await;
    axe(&page, "billing-overview").await;

    page.click(".tiles [data-state=active]").await;
    says(&page, ".list tbody", &paid).await;
    axe(&page, "billing-list").await;
    page.click(".list tbody a").await;
    says(&page, ".headline h1", &paid).await;
    says(&page, ".headline", "Entitled now").await;
    let history = client
        .get(&format!("/v1/subscriptions/{paid}/history"))
        .await;
    let outcomes = history.body["outcomes"].as_array().unwrap().clone();
    assert!(outcomes.len() >= 4, "{outcomes:?}");
    let steps = page
        .eval("[...document.querySelectorAll('.timeline li')].map(step => step.textContent)")
        .await;
    let steps = steps.as_array().unwrap();
    assert_eq!(steps.len(), outcomes.len());
    for (step, outcome) in steps.iter().rev().zip(&outcomes) {
        for word in ["action", "outcome", "state"] {
            let word = outcome[word].as_str().unwrap().replace('_', " ");
            assert!(step.as_str().unwrap().contains(&word), "{step} {outcome}");
        }
    }
    axe(&page, "billing-subscription").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn a_customer_confirms_a_payment_on_the_page_of_the_local_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let server = Program::new(env!("CARGO_BIN_EXE_billing"), dir.path().join("data"))
        .log_to(&log)
        .start();
    let client = server.client();
    let product = create(&client, "/v1/products", json!({ "name": "Gold" })).await;
    let price = json!({
        "product": product,
        "unit_amount": { "amount": 1_250, "currency": "EUR" },
        "every": { "count": 1, "unit": "month" },
    });
    let price = create(&client, "/v1/prices", price).await;
    let subscription = subscribe(&client, &price, "card_3ds").await;
    let owed = format!("/v1/invoices/in_{subscription}_0");
    let log = std::fs::read_to_string(&log).unwrap();
    let (_, address) = log.split_once("program: http://").unwrap();
    let (address, _) = address.split_once('/').unwrap();
    let gateway = Client::new(address, Version::Http1);
    let path = "/pay/pay_1";
    abide_harness::until("the payment", async || {
        let page = gateway.get(path).await.body;
        page.as_str()?.contains("It is mine").then_some(())
    })
    .await;
    let browser = Browser::start().await;
    let page = browser.open(&gateway.url(path)).await;
    says(&page, "h1", "12.50 EUR").await;
    axe(&page, "billing-authentication").await;
    page.click("form[action$=yes] button").await;
    says(&page, "p", "not waiting").await;
    axe(&page, "billing-authenticated").await;
    until(&client, &owed, |invoice| invoice["state"] == "paid").await;
}
