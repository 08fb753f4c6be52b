//! What the read model shows, whatever is in it.

use std::time::Duration;

use abide::{
    projection::Row,
    queue::{Queue, QueueMessage},
};
use billing::{Time, host::QUEUE, read::Reader};
use serde_json::json;

use crate::api::world::{Answer, World};

/// What two amounts add up to that is no amount.
const HUGE: i64 = 1 << 52;

/// The row of an invoice that was paid this month.
fn paid(number: usize, amount: i64, at: Time) -> Row {
    let month = &at.to_string()[..7];
    let values = json!({
        "kind": "invoice",
        "state": "paid",
        "amount": amount,
        "currency": "EUR",
        "attempts": 1,
        "failures": 0,
        "created_at": at,
        "updated_at": at,
        "created_month": month,
        "changed_month": month,
        "data": {},
    });
    let serde_json::Value::Object(values) = values else {
        panic!("an object")
    };
    Row {
        table: "resources".into(),
        id: format!("in_{number}"),
        source: "source".into(),
        timeline: "1".into(),
        seq: 1,
        at: at.0,
        values,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_beyond_what_an_amount_can_be_leave_the_first_page_as_it_is() {
    let world = World::new().await;
    let env = world.host.env();
    let reader = env.require::<Reader>().unwrap();
    let at = Time::now(&**env.clock());
    // The last is beyond what an integer of the database holds.
    for (before, count) in [(0, 1), (1, 2), (2, 3_000)] {
        let rows = (before..count).map(|number| paid(number, HUGE, at));
        reader.0.apply(rows.collect()).await.unwrap();
        let page = world.get("/").await;
        assert_eq!(page.status, 200, "{count}: {}", page.text);
        let says_a_sum = page.text.contains("45,035,996,273,704.96 EUR");
        let says_none = page.text.contains("more than can be added");
        assert_eq!((says_a_sum, says_none), (count == 1, count > 1), "{count}");
        assert!(page.text.contains(&format!("{count} invoices")), "{count}");
    }
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_read_model_had_not_taken_is_forgotten_when_it_was_made_anew() {
    let world = World::new().await;
    world
        .create("/v1/products", json!({ "name": "Gold" }))
        .await;
    let queue = Queue::new(world.host.env(), QUEUE).unwrap();
    let odd = QueueMessage::new(&json!({ "no": "row" })).unwrap();
    queue.send(odd).await.unwrap();
    let says = |lag: &Answer, dead: i64| lag.json()["dead"] == dead;
    world.until("/v1/read-model", |lag| says(lag, 1)).await;
    // What died in the millisecond in which a rebuild begins may be the rebuild's.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let rebuilt = world.post("/v1/read-model/rebuild", None).await;
    assert_eq!(rebuilt.status, 200, "{}", rebuilt.text);
    let lag = world.get("/v1/read-model").await;
    assert!(says(&lag, 0), "{}", lag.text);
    world.host.shutdown().await.unwrap();
}
