//! What every read model does: the same tests for each.

use abide::Value;
use abide::limits::projection as limits;
use abide::projection::{Begun, ProjectionError, ReadModel, Row};
use serde_json::json;

use crate::projection::support::{accounts, row};

/// All of them, on an empty read model with the tests' tables.
pub(crate) async fn all(model: &dyn ReadModel) {
    a_row_is_written_only_if_it_shows_a_later_change(model).await;
    values_come_back_as_they_were(model).await;
    a_batch_may_have_rows_of_several_tables(model).await;
    an_object_on_a_new_timeline_replaces_its_rows(model).await;
    a_query_only_reads_and_says_what_is_wrong(model).await;
    a_result_is_bounded(model).await;
    a_read_model_that_was_wiped_is_empty_and_takes_rows_again(model).await;
}

async fn a_row_is_written_only_if_it_shows_a_later_change(model: &dyn ReadModel) {
    let write = async |seq, balance| {
        let written = model.apply(vec![row("a", seq, balance)]).await.unwrap();
        let stored = accounts(model).await;
        (written["accounts"], stored[0].seq, stored[0].balance)
    };
    assert_eq!(write(2, 20).await, (1, 2, 20));
    assert_eq!(write(1, 10).await, (0, 2, 20));
    assert_eq!(write(2, 21).await, (0, 2, 20));
    assert_eq!(write(3, 30).await, (1, 3, 30));
    model.wipe().await.unwrap();
}

async fn an_object_on_a_new_timeline_replaces_its_rows(model: &dyn ReadModel) {
    let on = |timeline: &str, id, seq, balance| Row {
        source: "restored".to_owned(),
        timeline: timeline.to_owned(),
        ..row(id, seq, balance)
    };
    let other = Row {
        source: "other".to_owned(),
        ..on("0", "a", 7, 70)
    };
    let rows = vec![on("1", "a", 9, 90), on("1", "b", 9, 91), other];
    model.apply(rows).await.unwrap();
    // A row of the new timeline may come before the word of it.
    model.apply(vec![on("2", "a", 3, 30)]).await.unwrap();
    let begun = Begun {
        source: "restored".to_owned(),
        timeline: "2".to_owned(),
    };
    model.begin(begun.clone()).await.unwrap();
    let balances = async || -> Vec<i64> {
        let mut balances: Vec<_> = accounts(model)
            .await
            .into_iter()
            .map(|account| account.balance)
            .collect();
        balances.sort_unstable();
        balances
    };
    assert_eq!(balances().await, [30, 70]);
    let late = vec![on("1", "a", 11, 99), on("1", "c", 1, 98)];
    model.apply(late).await.unwrap();
    model.begin(begun).await.unwrap();
    let earlier = Begun {
        source: "restored".to_owned(),
        timeline: "1".to_owned(),
    };
    model.begin(earlier).await.unwrap();
    assert_eq!(balances().await, [30, 70]);
    model.apply(vec![on("2", "b", 1, 40)]).await.unwrap();
    assert_eq!(balances().await, [30, 40, 70]);
    model.wipe().await.unwrap();
}

async fn values_come_back_as_they_were(model: &dyn ReadModel) {
    let mut odd = row("ö\u{1F980}'\"\\", i64::MAX, i64::MIN);
    odd.values
        .insert("owner".to_owned(), json!({"a": [1, null]}));
    odd.values.insert("rate".to_owned(), json!(0.1));
    let empty = row("empty", 1, 0);
    let mut nothing = row("nothing", 1, 0);
    nothing.values.clear();
    model.apply(vec![odd, empty, nothing]).await.unwrap();
    let found = model
        .query(
            "SELECT id, seq, changed_at, balance, owner, rate FROM accounts WHERE id <> $1 AND balance < $2 AND rate > $3",
            vec![
                Value::Text("empty".into()),
                Value::Integer(1),
                Value::Real(0.05),
            ],
        )
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    let found = &found[0];
    assert_eq!(found["id"], "ö\u{1F980}'\"\\");
    assert_eq!(found["seq"], i64::MAX);
    assert_eq!(found["changed_at"], 17);
    assert_eq!(found["balance"], i64::MIN);
    assert_eq!(found["owner"], r#"{"a":[1,null]}"#);
    assert_eq!(found["rate"], 0.1);
    let sum = model
        .query(
            "SELECT count(*) AS n, sum(balance) AS total FROM accounts WHERE balance IS NOT NULL",
            vec![],
        )
        .await
        .unwrap();
    assert_eq!(
        (&sum[0]["n"], &sum[0]["total"]),
        (&json!(2), &json!(i64::MIN))
    );
    model.wipe().await.unwrap();
}

async fn a_batch_may_have_rows_of_several_tables(model: &dyn ReadModel) {
    let mut rows: Vec<_> = (0..200).map(|n| row(&format!("{n:03}"), 1, n)).collect();
    let mut deposit = row("d", 1, 0);
    "deposits".clone_into(&mut deposit.table);
    deposit.values = serde_json::from_str(r#"{"account":"a","amount":5}"#).unwrap();
    rows.push(deposit);
    let written = model.apply(rows).await.unwrap();
    assert_eq!((written["accounts"], written["deposits"]), (200, 1));
    assert_eq!(accounts(model).await.len(), 200);
    model.wipe().await.unwrap();
}

async fn a_query_only_reads_and_says_what_is_wrong(model: &dyn ReadModel) {
    let write = model.query("DELETE FROM accounts", vec![]).await;
    assert!(write.is_err(), "{write:?}");
    for bad in [
        "SELECT nothing FROM accounts",
        "SELEC 1",
        "SELECT * FROM nowhere",
    ] {
        let error = model.query(bad, vec![]).await;
        assert!(error.is_err(), "{bad}: {error:?}");
    }
    let one = "SELECT id FROM accounts WHERE id = $1";
    let too_many = vec![Value::Null, Value::Null];
    assert!(model.query(one, too_many).await.is_err());
    let fine = model.query(one, vec![Value::Text("x".into())]).await;
    assert!(fine.unwrap().is_empty());
}

async fn a_result_is_bounded(model: &dyn ReadModel) {
    let count = i64::try_from(limits::MAX_RESULT_ROWS).unwrap();
    let ones = |count| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n"
        )
    };
    let most = model.query(&ones(count), vec![]).await.unwrap();
    assert_eq!(most.len(), limits::MAX_RESULT_ROWS);
    let more = model.query(&ones(count + 1), vec![]).await.unwrap_err();
    assert!(matches!(more, ProjectionError::Invalid(_)), "{more}");
}

async fn a_read_model_that_was_wiped_is_empty_and_takes_rows_again(model: &dyn ReadModel) {
    model.apply(vec![row("a", 5, 50)]).await.unwrap();
    model.wipe().await.unwrap();
    assert!(accounts(model).await.is_empty());
    model.apply(vec![row("a", 4, 40)]).await.unwrap();
    assert_eq!(accounts(model).await[0].balance, 40);
    model.wipe().await.unwrap();
}
