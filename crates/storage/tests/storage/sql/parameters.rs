//! Parameters: what can be one, the sets of them, and the errors of those that do not fit.

use std::{borrow::Cow, num::NonZero, rc::Rc, sync::Arc};

use abide_storage::{
    ErrorKind, ObjectDb, Param, Params, ToSql, ToSqlError, Value, params, params_from_iter,
};

use crate::sql::database;

/// How SQLite stores a value: its type, and itself.
type Stored = (&'static str, Value);

/// A statement's only value.
fn only(db: &ObjectDb, sql: &str, params: impl Params) -> Value {
    db.exec(sql, params).unwrap().raw().remove(0).remove(0)
}

#[track_caller]
fn misfit(db: &ObjectDb, sql: &str, params: impl Params, why: &str) {
    let error = db.exec(sql, params).unwrap_err();
    assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::Input, why));
}

#[test]
fn each_type_becomes_one_of_sqlite_s() {
    let (_store, db) = database();
    let integer = |value: i64| ("integer", Value::Integer(value));
    let text = || ("text", Value::Text("ada".to_owned()));
    let blob = || ("blob", Value::Blob(vec![1, 2]));
    let null = || ("null", Value::Null);
    let real = || ("real", Value::Real(0.5));
    let one = NonZero::new(1_u64).unwrap();
    let parameters: Vec<(Box<dyn ToSql>, Stored)> = vec![
        (Box::new(true), integer(1)),
        (Box::new(false), integer(0)),
        (Box::new(i8::MIN), integer(-128)),
        (Box::new(i16::MIN), integer(-32_768)),
        (Box::new(i32::MIN), integer(-2_147_483_648)),
        (Box::new(i64::MIN), integer(i64::MIN)),
        (Box::new(isize::MIN), integer(i64::MIN)),
        (Box::new(u8::MAX), integer(255)),
        (Box::new(u16::MAX), integer(65_535)),
        (Box::new(u32::MAX), integer(4_294_967_295)),
        (Box::new(i64::MAX.cast_unsigned()), integer(i64::MAX)),
        (Box::new(7_usize), integer(7)),
        (Box::new(one), integer(1)),
        (Box::new(0.5_f32), real()),
        (Box::new(0.5_f64), real()),
        (Box::new(f64::NAN), null()),
        (Box::new("ada"), text()),
        (Box::new("ada".to_owned()), text()),
        (Box::new(Cow::Borrowed("ada")), text()),
        (Box::new(Rc::<str>::from("ada")), text()),
        (Box::new(Arc::new("ada".to_owned())), text()),
        (Box::new(""), ("text", Value::Text(String::new()))),
        (Box::new([1_u8, 2]), blob()),
        (Box::new(&[1_u8, 2][..]), blob()),
        (Box::new(vec![1_u8, 2]), blob()),
        (Box::new(Cow::Owned::<[u8]>(vec![1, 2])), blob()),
        (Box::new(Vec::<u8>::new()), ("blob", Value::Blob(vec![]))),
        (Box::new(None::<i64>), null()),
        (Box::new(Some(Some("ada"))), text()),
        (Box::new(Value::Null), null()),
        (Box::new(Value::Integer(7)), integer(7)),
        (Box::new(Value::Real(0.5)), real()),
        (Box::new(Value::from("ada")), text()),
        (Box::new(Value::from([1, 2])), blob()),
        (Box::new(Param::from(Value::from("ada"))), text()),
    ];
    for (at, (parameter, (kind, value))) in parameters.iter().enumerate() {
        assert_eq!(only(&db, "SELECT ?1", [parameter]), *value, "{at}");
        let found: String = db
            .exec("SELECT typeof(?1)", [parameter])
            .unwrap()
            .one()
            .unwrap();
        assert_eq!(found, *kind, "{at}");
    }
}

#[test]
fn texts_and_blobs_are_borrowed() {
    let (text, bytes) = ("ada".to_owned(), vec![1_u8, 2]);
    let (text_value, bytes_value) = (Value::from(&*text), Value::from(&*bytes));
    let parameters: [&dyn ToSql; 8] = [
        &text,
        &text.as_str(),
        &Some(&text),
        &text_value,
        &bytes,
        &[1_u8, 2],
        &Box::new(Some(&bytes)),
        &bytes_value,
    ];
    for (at, parameter) in parameters.iter().enumerate() {
        let param = parameter.to_sql().unwrap();
        let is_borrowed = matches!(
            param,
            Param::Text(Cow::Borrowed("ada")) | Param::Blob(Cow::Borrowed([1, 2]))
        );
        assert!(is_borrowed, "{at}: {param:?}");
    }
}

#[test]
fn parameters_are_passed_in_many_ways() {
    let (_store, db) = database();
    let joined = "SELECT concat_ws(',', ?1, ?2)";
    let expected = Value::from("1,2");
    let (one, two): (&dyn ToSql, &dyn ToSql) = (&1, &"2");
    assert_eq!(only(&db, joined, (1, "2")), expected);
    assert_eq!(only(&db, joined, [1, 2]), expected);
    assert_eq!(only(&db, joined, ["1", "2"]), expected);
    assert_eq!(only(&db, joined, [one, two]), expected);
    let (texts, numbers, any) = (&["1", "2"], &[&1, &2], &[one, two]);
    assert_eq!(only(&db, joined, texts), expected);
    assert_eq!(only(&db, joined, numbers), expected);
    assert_eq!(only(&db, joined, any), expected);
    assert_eq!(only(&db, joined, &any[..]), expected);
    assert_eq!(only(&db, joined, params![1, "2"]), expected);
    assert_eq!(only(&db, joined, params![1, "2",]), expected);
    assert_eq!(only(&db, joined, params_from_iter(1..=2)), expected);
    assert_eq!(only(&db, joined, params_from_iter(&["1", "2"])), expected);
    for none in [
        only(&db, "SELECT 7", ()),
        only(&db, "SELECT 7", []),
        only(&db, "SELECT 7", params![]),
        only(&db, "SELECT 7", params_from_iter([0; 0])),
    ] {
        assert_eq!(none, Value::Integer(7));
    }
    let many = only(
        &db,
        "SELECT ?1 + ?2 + ?3 + ?4 + ?5 + ?6 + ?7 + ?8 + ?9 + ?10 + ?11 + ?12 + ?13 + ?14 + ?15 + ?16",
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
    );
    assert_eq!(many, Value::Integer(136));
}

#[test]
fn named_parameters_are_bound_by_their_names() {
    let (_store, db) = database();
    let joined = "SELECT concat_ws(',', :one, @two, $three, :one)";
    let values = [("$three", 3), (":one", 1), ("@two", 2)];
    assert_eq!(only(&db, joined, &values), Value::from("1,2,3,1"));
    assert_eq!(only(&db, joined, &values[..]), Value::from("1,2,3,1"));
    let dynamic: [(&str, &dyn ToSql); 3] = [("@two", &"2"), (":one", &1), ("$three", &None::<i64>)];
    assert_eq!(only(&db, joined, &dynamic), Value::from("1,2,1"));
    misfit(
        &db,
        joined,
        &[(":four", 4)],
        "the statement has no parameter :four",
    );
    misfit(&db, joined, &values[..2], "no value was passed for @two");
    misfit(
        &db,
        "SELECT :one, ?",
        &[(":one", 1)],
        "parameter 2 has no name: pass all values by position",
    );
    misfit(
        &db,
        "SELECT :one",
        &[(":one", u64::MAX)],
        "parameter :one: 18446744073709551615 exceeds 9223372036854775807, the largest SQLite integer: bind it as text or a \
         blob",
    );
}

#[test]
fn a_wrong_number_of_parameters_is_an_error() {
    let (_store, db) = database();
    let two = "SELECT ?1, ?2";
    let one = "1 parameters were passed, but the statement has 2";
    let none = "0 parameters were passed, but the statement has 2";
    let three = "3 parameters were passed, but the statement has 2";
    misfit(&db, two, (), none);
    misfit(&db, two, [], none);
    misfit(&db, two, (1,), one);
    misfit(&db, two, [1, 2, 3], three);
    let short = &[&1];
    misfit(&db, two, short, one);
    misfit(&db, two, params![1, 2, 3], three);
    misfit(&db, two, params_from_iter([1]), one);
    let endless = params_from_iter(1..);
    misfit(
        &db,
        two,
        endless,
        "more than 2 parameters were passed, but the statement has 2",
    );
    // The statement is prepared, and what was bound before is forgotten.
    assert_eq!(
        db.exec(two, (3, 4)).unwrap().raw(),
        [[3, 4].map(Value::Integer)]
    );
}

#[test]
fn a_type_of_the_program_refuses_a_value_with_its_own_reason() {
    struct Even(i64);
    impl ToSql for Even {
        fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
            if self.0 % 2 == 0 {
                Ok(self.0.into())
            } else {
                Err(ToSqlError::new(format_args!("{} is odd", self.0)))
            }
        }
    }
    let (_store, db) = database();
    db.exec("CREATE TABLE t (n)", ()).unwrap();
    let insert = "INSERT INTO t VALUES (?1), (?2)";
    db.exec(insert, (Even(2), 3)).unwrap();
    misfit(&db, insert, (2, Even(3)), "parameter 2: 3 is odd");
    misfit(&db, insert, [Even(5), Even(6)], "parameter 1: 5 is odd");
    assert_eq!(only(&db, "SELECT count(*) FROM t", ()), Value::Integer(2));
    // The transaction of the poll is intact.
    db.commit().unwrap();
    assert_eq!(only(&db, "SELECT count(*) FROM t", ()), Value::Integer(2));
}

#[test]
fn values_convert_from_rust_s_types() {
    assert_eq!(Value::from(true), Value::Integer(1));
    assert_eq!(Value::from(u32::MAX), Value::Integer(4_294_967_295));
    assert_eq!(Value::from(0.5_f32), Value::Real(0.5));
    assert_eq!(
        Value::from(Cow::Borrowed("ada")),
        Value::from("ada".to_owned())
    );
    assert_eq!(Value::from(&[1_u8, 2][..]), Value::from(vec![1, 2]));
    assert_eq!(Value::from(Some("ada")), Value::Text("ada".to_owned()));
    assert_eq!(Value::from(None::<Vec<u8>>), Value::Null);
    assert_eq!(Value::try_from(7_usize), Ok(Value::Integer(7)));
    let refused = Value::try_from(u64::MAX).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("18446744073709551615 exceeds"),
        "{refused}"
    );
    for value in [
        Value::Null,
        7.into(),
        0.5.into(),
        "ada".into(),
        [1, 2].into(),
    ] {
        assert_eq!(Value::from(Param::from(&value)), value);
        assert_eq!(Value::from(Param::from(value.clone())), value);
    }
}
