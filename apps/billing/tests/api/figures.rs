//! What the read model shows, whatever is in it.

use abide_patterns::projection::Row;
use billing::{Time, read::Reader};
use serde_json::json;

use crate::world::World;

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
