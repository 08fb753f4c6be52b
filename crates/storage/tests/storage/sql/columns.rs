//! Values come under the names of their columns, whatever has happened to the schema since a statement was prepared.

use abide_storage::{Error, ObjectDb, Result};
use serde::Deserialize;

use crate::sql::{database, run};

#[derive(Debug, PartialEq, Deserialize)]
struct Account {
    owner: String,
    iban: String,
}

const SELECT: &str = "SELECT * FROM account";

/// What the same statement returns, read in three ways.
fn read(db: &ObjectDb) -> (Account, Vec<Account>, Vec<String>) {
    let mut each = Vec::new();
    db.for_each(SELECT, (), |row| {
        each.push(row.get::<Account>()?);
        Ok::<(), Error>(())
    })
    .unwrap();
    let rows = db.exec(SELECT, ()).unwrap();
    (rows.one().unwrap(), each, rows.columns().to_vec())
}

fn ada() -> Account {
    Account {
        owner: "Ada".into(),
        iban: "DE11".into(),
    }
}

const CREATE: &str =
    "CREATE TABLE account (owner TEXT, iban TEXT); INSERT INTO account VALUES ('Ada', 'DE11')";

const SWAP: &str =
    "CREATE TABLE n (iban TEXT, owner TEXT); INSERT INTO n SELECT iban, owner FROM account;
    DROP TABLE account; ALTER TABLE n RENAME TO account";

#[test]
fn a_rebuilt_table_has_its_columns_in_the_new_order() {
    for exec_first in [true, false] {
        let (_store, db) = database();
        run(&db, CREATE);
        assert_eq!(
            read(&db),
            (ada(), vec![ada()], vec!["owner".into(), "iban".into()])
        );
        run(&db, SWAP);
        if exec_first {
            assert_eq!(
                db.exec(SELECT, ()).unwrap().one::<Account>().unwrap(),
                ada()
            );
        }
        assert_eq!(
            read(&db),
            (ada(), vec![ada()], vec!["iban".into(), "owner".into()])
        );
    }
}

#[test]
fn an_added_column_is_in_the_result_at_once() {
    let (_store, db) = database();
    run(&db, CREATE);
    read(&db);
    run(
        &db,
        "ALTER TABLE account ADD COLUMN city TEXT DEFAULT 'Bern'",
    );
    let rows = db.exec(SELECT, ()).unwrap();
    assert_eq!(rows.columns(), ["owner", "iban", "city"]);
    assert_eq!(rows.raw()[0].len(), 3);
    run(&db, "DELETE FROM account");
    run(&db, "ALTER TABLE account DROP COLUMN iban");
    assert_eq!(
        db.exec(SELECT, ()).unwrap().columns(),
        ["owner", "city"],
        "without rows"
    );
}

#[test]
fn a_migration_that_is_undone_leaves_the_old_columns() {
    let (_store, db) = database();
    run(&db, CREATE);
    read(&db);
    let undone: Result<()> = db.transaction(|| {
        run(&db, SWAP);
        assert_eq!(read(&db).0, ada());
        db.exec("nonsense", ()).map(drop)
    });
    undone.unwrap_err();
    assert_eq!(read(&db).0, ada());
}

#[test]
fn returning_all_columns_follows_the_schema() {
    let (_store, db) = database();
    run(&db, CREATE);
    let insert = "INSERT INTO account (owner, iban) VALUES ('Ada', 'DE11') RETURNING *";
    assert_eq!(
        db.exec(insert, ()).unwrap().one::<Account>().unwrap(),
        ada()
    );
    run(&db, SWAP);
    assert_eq!(
        db.exec(insert, ()).unwrap().one::<Account>().unwrap(),
        ada()
    );
}
