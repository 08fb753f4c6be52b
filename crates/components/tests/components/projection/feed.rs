//! From objects to the read model, without faults.

use abide::limits::projection as limits;

use crate::projection::support::{World, run};

#[test]
fn a_change_of_an_object_is_in_the_read_model_soon_after() {
    run(async {
        let world = World::new();
        world.deposit("ada", 10).await;
        world.deposit("bob", 5).await;
        world.deposit("ada", 7).await;
        world.until_balances(&[("ada", 17), ("bob", 5)]).await;
        let query = "SELECT id, amount FROM deposits ORDER BY id";
        world
            .until("the deposits", async || {
                let deposits: Vec<(String, i64)> = world
                    .model
                    .model
                    .query(query, vec![])
                    .await
                    .unwrap()
                    .into_iter()
                    .map(|row| {
                        (
                            row["id"].as_str().unwrap().to_owned(),
                            row["amount"].as_i64().unwrap(),
                        )
                    })
                    .collect();
                deposits
                    == [
                        ("ada/1".to_owned(), 10),
                        ("ada/2".to_owned(), 7),
                        ("bob/1".to_owned(), 5),
                    ]
            })
            .await;
    });
}

#[test]
fn a_feed_that_has_handed_over_leaves_nothing_behind() {
    run(async {
        let world = World::new();
        world.deposit("ada", 10).await;
        world.until_balances(&[("ada", 10)]).await;
        world
            .until("nothing waits and nothing is armed", async || {
                let bank = world.bank("ada");
                bank.waiting().await.unwrap() == 0
                    && !bank.is_armed().await.unwrap()
                    && world.counts().await.messages == 0
            })
            .await;
        assert_eq!(world.counts().await.dead, 0);
    });
}

#[test]
fn a_change_that_is_undone_feeds_nothing() {
    run(async {
        let world = World::new();
        world.deposit("ada", 10).await;
        assert!(world.bank("ada").deposit_and_fail().await.is_err());
        world.deposit("ada", 1).await;
        world.until_balances(&[("ada", 11)]).await;
    });
}

#[test]
fn many_changes_are_few_batches() {
    run(async {
        let world = World::new();
        world.queue().pause().await.unwrap();
        for number in 0..300 {
            world.deposit(&format!("{:02}", number % 50), 1).await;
        }
        world
            .until("all are handed over", async || {
                // An account and 6 deposits of each, if none of its changes was faster than the feed.
                let counts = world.counts().await;
                counts.messages >= 350
            })
            .await;
        world.queue().resume().await.unwrap();
        let wanted: Vec<(String, i64)> =
            (0..50).map(|number| (format!("{number:02}"), 6)).collect();
        let wanted: Vec<(&str, i64)> = wanted.iter().map(|(name, b)| (name.as_str(), *b)).collect();
        world.until_balances(&wanted).await;
        world
            .until("all is written", async || {
                world.counts().await.messages == 0
            })
            .await;
        let batches = world.model.batches.lock().unwrap().clone();
        assert!(batches.len() <= 10, "{batches:?}");
    });
}

#[test]
fn a_row_that_does_not_fit_is_refused_where_it_is_put() {
    run(async {
        let world = World::new();
        let bank = world.bank("ada");
        for (table, values, reason) in [
            (
                "acounts",
                "{}",
                "there is no table `acounts`; there is `accounts`, `deposits`",
            ),
            ("accounts", r#"{"balanse":1}"#, "no column `balanse`"),
            ("accounts", r#"{"balance":"much"}"#, "cannot hold"),
            ("accounts", r#"{"balance":1.5}"#, "cannot hold"),
            ("accounts", "17", "a struct or a map"),
        ] {
            let error = bank.put_odd(table.into(), values.into()).await.unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        let long = format!(r#"{{"owner":"{}"}}"#, "x".repeat(limits::MAX_ROW_BYTES));
        let error = bank.put_odd("accounts".into(), long).await.unwrap_err();
        assert!(error.to_string().contains("bytes"), "{error}");
        assert_eq!(bank.waiting().await.unwrap(), 0);
    });
}
