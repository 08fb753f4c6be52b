//! A read model in an SQLite file.

use std::{fs, sync::Arc};

use abide::projection::{ProjectionError, ReadModel, SqliteModel, Table, Tables, Type};
use abide::storage::{Store, StoreOptions};
use tempfile::TempDir;

use crate::projection::{
    models,
    support::{accounts, row, run, tables},
};

#[test]
fn it_does_what_every_read_model_does() {
    run(async {
        let dir = TempDir::new().unwrap();
        let model = SqliteModel::open(dir.path().join("read-model.db"), tables()).unwrap();
        models::all(&model).await;
    });
}

#[test]
fn rows_are_there_after_the_file_is_opened_again() {
    run(async {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("read-model.db");
        let model = SqliteModel::open(&path, tables()).unwrap();
        model.apply(vec![row("a", 1, 10)]).await.unwrap();
        drop(model);
        let model = SqliteModel::open(&path, tables()).unwrap();
        assert_eq!(accounts(&model).await[0].balance, 10);
    });
}

#[test]
fn a_file_that_is_removed_is_made_anew() {
    run(async {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("read-model.db");
        let model = SqliteModel::open(&path, tables()).unwrap();
        model.apply(vec![row("a", 2, 20)]).await.unwrap();
        for file in fs::read_dir(dir.path()).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        assert!(accounts(&model).await.is_empty());
        model.apply(vec![row("a", 1, 10)]).await.unwrap();
        assert_eq!(accounts(&model).await[0].balance, 10);
    });
}

#[test]
fn columns_are_added_and_other_changes_are_refused() {
    run(async {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("read-model.db");
        let open = |column, of| {
            let table = Table::new("accounts")
                .column("balance", Type::Integer)
                .column(column, of);
            SqliteModel::open(&path, Tables::new([table]).unwrap())
        };
        let model = open("owner", Type::Text).unwrap();
        model.apply(vec![row("a", 1, 10)]).await.unwrap();
        let mut later = row("a", 2, 20);
        later.values.remove("owner");
        let model = open("rate", Type::Real).unwrap();
        model.apply(vec![later]).await.unwrap();
        assert_eq!(accounts(&model).await[0].balance, 20);
        let refused = open("owner", Type::Integer).unwrap_err();
        assert!(matches!(refused, ProjectionError::Refused(_)));
        assert!(
            refused.to_string().contains("give it another name"),
            "{refused}"
        );
    });
}

#[test]
fn the_file_may_be_in_the_data_directory() {
    run(async {
        let dir = TempDir::new().unwrap();
        for round in 1..3 {
            let disk = Arc::new(abide::storage::RealDisk);
            let store = Store::open(disk, dir.path(), StoreOptions::small()).unwrap();
            let model = SqliteModel::open(dir.path().join("read-model.db"), tables()).unwrap();
            model.apply(vec![row("a", round, round)]).await.unwrap();
            assert_eq!(accounts(&model).await[0].balance, round);
            store.checkpoint().unwrap();
            store.close().unwrap();
        }
    });
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let missing = TempDir::new().unwrap().path().join("nowhere/read-model.db");
    let error = SqliteModel::open(missing, tables()).unwrap_err();
    assert!(matches!(error, ProjectionError::Unavailable(_)), "{error}");
}

#[test]
fn invalid_declarations_are_refused() {
    for (table, reason) in [
        (Table::new("Accounts"), "not a valid name"),
        (Table::new("a\"b"), "not a valid name"),
        (Table::new(""), "not a valid name"),
        (Table::new("a").column("id", Type::Text), "two columns"),
        (
            Table::new("a")
                .column("b", Type::Text)
                .column("b", Type::Real),
            "two columns",
        ),
        (Table::new("a").index(["b"]), "not a column"),
        (
            (0..65).fold(Table::new("a"), |table, n| {
                table.column(format!("c{n}"), Type::Text)
            }),
            "65 columns",
        ),
    ] {
        let error = Tables::new([table]).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    let twice = Tables::new([Table::new("a"), Table::new("a")]).unwrap_err();
    assert!(twice.to_string().contains("two tables"), "{twice}");
}
