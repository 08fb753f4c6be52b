//! The key-value store: values can be read back, in the byte order of their keys; and arbitrary bytes as encoded
//! values.

use crate::input::Input;
use abide_storage::{
    ErrorKind, ListOptions, ObjectDb, ObjectKey, SimDisk, Store, StoreOptions, cbor,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The first byte of the input selects the mode: an encoded value, or calls.
pub fn target(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0, value)) => decoded(value),
        Some((_, calls)) => called(calls),
        None => {}
    }
}

/// Decoded data can be encoded, and decodes to the same again.
fn decoded(bytes: &[u8]) {
    let Ok(value) = cbor::from_slice::<serde_json::Value>(bytes) else {
        return;
    };
    let encoded = cbor::to_vec(&value).expect("a value that was decoded");
    let again: serde_json::Value = cbor::from_slice(&encoded).expect("a value that was encoded");
    assert_eq!(again, value);
}

thread_local! {
    /// One object for all inputs: each input starts with an empty object.
    static OBJECT: RefCell<Option<(Store, ObjectDb)>> = const { RefCell::new(None) };
}

fn object() -> (Store, ObjectDb) {
    let options = StoreOptions::small().manual(true);
    let store = Store::open(Arc::new(SimDisk::new()), Path::new("/data"), options);
    let store = store.expect("an empty disk");
    let namespace = store.namespace("fuzz").expect("a namespace");
    let db = store.open_object(ObjectKey {
        namespace,
        id: [1; 32],
    });
    (store, db.expect("an object"))
}

/// The same calls on an object and on a map must give the same results. Nothing is committed.
fn called(calls: &[u8]) {
    OBJECT.with_borrow_mut(|object_| {
        let (_, db) = object_.get_or_insert_with(object);
        let mut input = Input(calls);
        let mut model = BTreeMap::new();
        while !input.is_empty() {
            call(db, &mut model, &mut input);
        }
        let all = db.kv_list(&ListOptions::default()).expect("a list");
        assert!(
            all.into_iter().eq(model),
            "the store differs from the model"
        );
        db.rollback();
    });
}

fn call(db: &ObjectDb, model: &mut BTreeMap<String, Vec<u8>>, input: &mut Input<'_>) {
    let (choice, key) = (input.byte(), text(input));
    match choice % 4 {
        0 => {
            let value = input.bytes();
            db.kv_put(&key, value).expect("a short value");
            model.insert(key, value.to_vec());
        }
        1 => assert_eq!(
            db.kv_delete(&key).expect("a delete"),
            model.remove(&key).is_some()
        ),
        2 => assert_eq!(db.kv_get(&key).expect("a get").as_ref(), model.get(&key)),
        _ => listed(db, model, choice, key, input),
    }
    let long = key_over_the_limit();
    assert_eq!(
        db.kv_get(&long).map_err(|error| error.kind()),
        Err(ErrorKind::Limit)
    );
}

fn listed(
    db: &ObjectDb,
    model: &BTreeMap<String, Vec<u8>>,
    choice: u8,
    key: String,
    input: &mut Input<'_>,
) {
    let mut or_none = |bit: u8| (choice & bit != 0).then(|| text(input));
    let options = ListOptions::default()
        .prefix(key)
        .start(or_none(4))
        .start_after(or_none(8))
        .end(or_none(16))
        .reverse(choice & 32 != 0)
        .limit((choice & 64 != 0).then(|| usize::from(choice >> 4)));
    let told = |(key, _): &(&String, &Vec<u8>)| {
        options
            .prefix
            .as_ref()
            .is_none_or(|prefix| key.starts_with(prefix.as_str()))
            && options.start.as_ref().is_none_or(|start| *key >= start)
            && options
                .start_after
                .as_ref()
                .is_none_or(|after| *key > after)
            && options.end.as_ref().is_none_or(|end| *key < end)
    };
    let mut expected: Vec<_> = model.iter().filter(told).collect();
    if options.reverse {
        expected.reverse();
    }
    expected.truncate(options.limit.unwrap_or(usize::MAX));
    let found = db.kv_list(&options).expect("a list");
    assert!(
        found.iter().map(|(key, value)| (key, value)).eq(expected),
        "{options:?} told {found:?}"
    );
}

fn text(input: &mut Input<'_>) -> String {
    String::from_utf8_lossy(input.bytes()).into_owned()
}

fn key_over_the_limit() -> String {
    "k".repeat(abide_storage::limits::MAX_KEY_BYTES + 1)
}
