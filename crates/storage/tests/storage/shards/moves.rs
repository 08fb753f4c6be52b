//! One shard moves from store to store.

use super::world::{Node, SHARDS, id, options, shard};
use crate::common::manual;
use abide_storage::{
    AlarmRow, AlarmState, BegunAttempt, Bookmark, ErrorKind, Isolation, Lsn, ObjectKey, RealDisk,
    ShardClaim, SimDisk, Store,
};
use std::sync::Arc;

const CLASS: &str = "Moved";

fn put(node: &mut Node, id: [u8; 32], value: &[u8]) {
    let db = node.open(CLASS, id).unwrap();
    db.kv_put("k", value).unwrap();
    db.commit().unwrap();
    drop(db);
    node.ship();
}

fn get(node: &Node, id: [u8; 32]) -> Option<Vec<u8>> {
    node.open(CLASS, id).unwrap().kv_get("k").unwrap()
}

#[test]
fn a_shard_moves_with_its_objects_and_comes_back() {
    let [number, other, _] = SHARDS;
    let (mut a, mut b) = (Node::start(), Node::start());
    a.claim(number, 1, Vec::new()).unwrap();
    a.claim(other, 1, Vec::new()).unwrap();
    put(&mut a, id(number, 1), b"first");
    put(&mut a, id(other, 1), b"stays");
    a.store().checkpoint().unwrap();
    put(&mut a, id(number, 2), &vec![7; 20_000]);
    put(&mut a, id(number, 1), b"second");
    let until = a.give_up(number);
    let mut parts = vec![a.inherited(1, Lsn::ZERO, until)];
    assert_eq!(
        a.open(CLASS, id(number, 1)).unwrap_err().kind(),
        ErrorKind::Moved
    );
    assert_eq!(get(&a, id(other, 1)).unwrap(), b"stays");

    let since = b.claim(number, 2, parts.clone()).unwrap();
    assert_eq!(get(&b, id(number, 1)).unwrap(), b"second");
    assert_eq!(get(&b, id(number, 2)).unwrap(), vec![7; 20_000]);
    assert_eq!(
        b.open(CLASS, id(other, 1)).unwrap_err().kind(),
        ErrorKind::Moved
    );
    assert_eq!(b.open(CLASS, id(number, 1)).unwrap().generation(), 2);
    put(&mut b, id(number, 1), b"third");
    b.store().checkpoint().unwrap();
    put(&mut b, id(number, 3), b"new");
    let until = b.give_up(number);
    parts.push(b.inherited(2, since, until));

    // What it has had before is not mistaken for the present.
    a.claim(number, 3, parts).unwrap();
    assert_eq!(get(&a, id(number, 1)).unwrap(), b"third");
    assert_eq!(get(&a, id(number, 2)).unwrap(), vec![7; 20_000]);
    assert_eq!(get(&a, id(number, 3)).unwrap(), b"new");
    a.store().checkpoint().unwrap();
    assert_eq!(get(&a, id(number, 1)).unwrap(), b"third");
    assert_eq!(get(&a, id(other, 1)).unwrap(), b"stays");
}

#[test]
fn s27_a_commit_after_the_shard_was_closed_is_refused() {
    let number = SHARDS[0];
    let mut node = Node::start();
    node.claim(number, 1, Vec::new()).unwrap();
    put(&mut node, id(number, 2), b"in memory");
    let db = node.open(CLASS, id(number, 1)).unwrap();
    db.kv_put("k", b"before").unwrap();
    let end = db.commit().unwrap().unwrap();
    db.kv_put("k", b"after").unwrap();
    assert_eq!(node.store().close_shard(shard(number)).unwrap(), end);
    let error = db.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Moved, "{error}");
    assert_eq!(node.store().appended(), end);
    let opened = node.open(CLASS, id(number, 2)).unwrap_err();
    assert_eq!(opened.kind(), ErrorKind::Moved, "{opened}");
    let error = node.store().forget_shard(shard(number)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "it is open: {error}");
    // The connection keeps the tenure in which it was opened.
    node.ship();
    let parts = vec![node.inherited(1, Lsn::ZERO, end)];
    let error = node.claim(number, 2, parts.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    drop(db);
    node.store().forget_shard(shard(number)).unwrap();
    node.claim(number, 2, parts).unwrap();
    assert_eq!(get(&node, id(number, 1)).unwrap(), b"before");
}

#[test]
fn an_object_that_deletes_everything_as_its_shard_moves_stays_empty() {
    let number = SHARDS[1];
    let (mut a, b) = (Node::start(), Node::start());
    a.claim(number, 1, Vec::new()).unwrap();
    for object in [1, 2] {
        put(&mut a, id(number, object), b"old");
    }
    // The first one's end is in the log, the second one's is refused.
    let late = a.open(CLASS, id(number, 2)).unwrap();
    let db = a.open(CLASS, id(number, 1)).unwrap();
    db.delete_all().unwrap();
    db.commit().unwrap();
    drop(db);
    late.delete_all().unwrap();
    late.commit().unwrap();
    let until = a.store().close_shard(shard(number)).unwrap();
    drop(late);
    a.ship();
    a.store().forget_shard(shard(number)).unwrap();
    b.claim(number, 2, vec![a.inherited(1, Lsn::ZERO, until)])
        .unwrap();
    let namespace = b.store().namespace(CLASS).unwrap();
    let exists = |object| {
        let id = id(number, object);
        b.store().has_object(ObjectKey { namespace, id }).unwrap()
    };
    assert!(!exists(1) && exists(2));
    assert_eq!(
        (get(&b, id(number, 1)), get(&b, id(number, 2))),
        (None, None)
    );
}

#[test]
fn the_first_change_of_a_page_after_a_claim_is_logged_as_a_full_image() {
    let number = SHARDS[0];
    let (mut a, mut b, c) = (Node::start(), Node::start(), Node::start());
    a.claim(number, 1, Vec::new()).unwrap();
    put(&mut a, id(number, 1), &[1; 100]);
    let until = a.give_up(number);
    b.claim(number, 2, vec![a.inherited(1, Lsn::ZERO, until)])
        .unwrap();
    put(&mut b, id(number, 1), &[2; 100]);
    let until = b.give_up(number);
    // The records of the first owner may be in the archive, and those of the second must be readable without them.
    c.claim(number, 3, vec![b.inherited(2, Lsn::ZERO, until)])
        .unwrap();
    let error = c.open(CLASS, id(number, 1)).unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Damaged,
        "its first commits are missing: {error}"
    );
}

#[test]
fn alarms_move_and_one_whose_attempt_had_begun_is_a_suspect() {
    let number = SHARDS[2];
    let (mut a, b) = (Node::start(), Node::start());
    b.store().alarms().divide(1, |_| Some(0));
    a.claim(number, 1, Vec::new()).unwrap();
    for (object, begun) in [(1, false), (2, true), (3, false)] {
        let db = a.open(CLASS, id(number, object)).unwrap();
        let mut row = AlarmRow::at(1_000 + i64::from(object));
        row.begun = begun.then(|| BegunAttempt {
            epoch: db.generation(),
            isolation: Isolation::Free,
        });
        db.set_alarm(Some(&row)).unwrap();
        db.commit().unwrap();
    }
    let db = a.open(CLASS, id(number, 3)).unwrap();
    db.set_alarm(None).unwrap();
    db.commit().unwrap();
    drop(db);
    a.ship();
    let until = a.give_up(number);
    assert_eq!(a.store().alarms().list(AlarmState::Pending, None, 9), []);
    b.claim(number, 2, vec![a.inherited(1, Lsn::ZERO, until)])
        .unwrap();
    let due = b.store().alarms().take_due(0, 5_000).unwrap();
    assert_eq!((due.key.id, due.entry.due), (id(number, 1), 1_001));
    assert_eq!(b.store().alarms().take_due(0, 5_000), None);
    let (_, suspect) = b
        .store()
        .alarms()
        .take_suspect(Isolation::Few, 5_000)
        .unwrap();
    assert_eq!(suspect.key.id, id(number, 2));
    let row = b
        .open(CLASS, id(number, 2))
        .unwrap()
        .alarm()
        .unwrap()
        .unwrap();
    assert!(row.was_cut_off(2) && !row.was_cut_off(1));
}

#[test]
fn the_log_is_kept_until_it_is_shipped() {
    let number = SHARDS[0];
    let mut node = Node::start();
    node.claim(number, 1, Vec::new()).unwrap();
    let db = node.open(CLASS, id(number, 1)).unwrap();
    for value in 0..6_u8 {
        db.kv_put("k", &vec![value; 200_000]).unwrap();
        db.commit().unwrap();
        while node.store().write_group() {}
        node.store().checkpoint().unwrap();
    }
    assert_eq!(node.store().durable(), Lsn::ZERO);
    drop(db);
    node.ship();
}

#[test]
fn bookmarks_rise_from_owner_to_owner() {
    let number = SHARDS[0];
    let (mut a, mut b) = (Node::start(), Node::start());
    a.claim(number, 1, Vec::new()).unwrap();
    put(&mut a, id(number, 1), &vec![1; 100_000]);
    let bookmark = |node: &Node| node.open(CLASS, id(number, 1)).unwrap().bookmark();
    let of_a = bookmark(&a);
    let until = a.give_up(number);
    b.claim(number, 2, vec![a.inherited(1, Lsn::ZERO, until)])
        .unwrap();
    let adopted = bookmark(&b);
    put(&mut b, id(number, 1), b"little");
    assert!(b.shipped < a.shipped);
    let of_b = bookmark(&b);
    assert!(of_a.to_string() < adopted.to_string() && adopted.to_string() < of_b.to_string());
}

#[test]
fn numbers_of_a_new_life_are_above_those_in_other_logs() {
    let number = SHARDS[0];
    let (mut a, mut b) = (Node::start(), Node::start());
    a.claim(number, 1, Vec::new()).unwrap();
    put(&mut a, id(number, 2), &vec![1; 90_000]);
    put(&mut a, id(number, 1), b"first");
    let first = |node: &Node| {
        let db = node.open(CLASS, id(number, 1)).unwrap();
        (db.timeline().unwrap().id, db.bookmark())
    };
    let (timeline, bookmark) = first(&a);
    let db = a.open(CLASS, id(number, 1)).unwrap();
    db.delete_all().unwrap();
    db.commit().unwrap();
    drop(db);
    a.ship();
    let until = a.give_up(number);

    let left = a.inherited(1, Lsn::ZERO, until);
    b.claim_above(until.get(), number, 2, vec![left]).unwrap();
    assert_eq!(get(&b, id(number, 1)), None);
    put(&mut b, id(number, 1), b"second");
    assert!(b.shipped < until, "its log is shorter");
    let (timeline_anew, bookmark_anew) = first(&b);
    assert!(timeline_anew > timeline && timeline_anew.position() > timeline.position());
    assert!(bookmark_anew.to_string() > bookmark.to_string());
    // The third part of a bookmark is the number of its commit.
    let commit = |bookmark: &Bookmark| {
        let text = bookmark.to_string();
        let commit = text.split('-').nth(2).unwrap();
        u32::from_str_radix(commit, 16).unwrap()
    };
    assert!(commit(&bookmark_anew) > commit(&bookmark));
}

#[test]
fn shard_calls_need_claims_shards() {
    let store = manual(&SimDisk::new());
    let claim = ShardClaim {
        shard: shard(1),
        generation: 9,
        since: Lsn::ZERO,
        floor: 0,
        inherited: Vec::new(),
    };
    for error in [
        store.claim_shard(&claim).unwrap_err(),
        store.close_shard(shard(1)).unwrap_err(),
        store.forget_shard(shard(1)).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().contains("claims_shards"), "{error}");
    }
}

#[test]
fn what_is_not_in_the_log_is_refused() {
    let number = SHARDS[0];
    let mut node = Node::start();
    node.claim(number, 1, Vec::new()).unwrap();
    put(&mut node, id(number, 1), b"kept");
    let error = node.store().delete_namespace(CLASS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("claims_shards"), "{error}");
    assert_eq!(get(&node, id(number, 1)).unwrap(), b"kept");
}

#[test]
fn a_shard_is_forgotten_whichever_directories_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Arc::new(RealDisk), dir.path(), options()).unwrap();
    let [number, other, _] = SHARDS;
    for shard in [number, other] {
        let claim = ShardClaim {
            shard: self::shard(shard),
            generation: 1,
            since: Lsn::ZERO,
            floor: 0,
            inherited: Vec::new(),
        };
        store.claim_shard(&claim).unwrap();
    }
    store.namespace("Without objects").unwrap();
    let namespace = store.namespace(CLASS).unwrap();
    let put = |shard| {
        let id = id(shard, 1);
        let db = store.open_object(ObjectKey { namespace, id }).unwrap();
        db.kv_put("k", b"v").unwrap();
        db.commit().unwrap();
    };
    put(number);
    put(other);
    store.checkpoint().unwrap();
    store.close_shard(shard(number)).unwrap();
    store.forget_shard(shard(number)).unwrap();
    let has = |shard| {
        let id = id(shard, 1);
        store.has_object(ObjectKey { namespace, id }).unwrap()
    };
    assert!(!has(number) && has(other));
    let error = store.forget_shard(shard(number)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "it was forgotten: {error}");
}
