//! Claims that are wrong, of logs that are incomplete or damaged: nothing is changed, and the right claim succeeds.

use super::world::{Node, SHARDS, id, options, shard};
use crate::common::{DIR, manual};
use abide_storage::{
    AlarmRow, ArchiveOptions, EarlierLog, ErrorKind, Inherited, Lsn, ShardClaim, SharedNamespaces,
    SimDisk, Store, StoreOptions,
};
use std::io;
use std::path::Path;
use std::sync::Arc;

const NUMBER: u16 = SHARDS[1];

/// A node that has given up a shard with an object, and what it left.
fn left() -> (Node, Inherited) {
    let mut node = Node::start();
    node.claim(NUMBER, 1, Vec::new()).unwrap();
    for value in 0..4_u8 {
        let db = node.open("Left", id(NUMBER, 1)).unwrap();
        db.kv_put("k", &[value; 3_000]).unwrap();
        db.commit().unwrap();
        drop(db);
        node.ship();
    }
    let until = node.give_up(NUMBER);
    let inherited = node.inherited(1, Lsn::ZERO, until);
    assert!(node.log.len() > 3);
    (node, inherited)
}

fn is_taken(node: &Node, inherited: &Inherited) {
    node.claim(NUMBER, 2, vec![inherited.clone()]).unwrap();
    let db = node.open("Left", id(NUMBER, 1)).unwrap();
    assert_eq!(db.kv_get("k").unwrap().unwrap(), [3; 3_000]);
}

#[test]
fn a_log_with_a_gap_or_a_changed_byte_is_not_adopted() {
    let (owner, inherited) = left();
    let heir = Node::start();
    let refused = |log: Vec<Arc<[u8]>>, kind| {
        let Ok(log) = EarlierLog::read(log).map_err(|error| assert_eq!(error.kind(), kind)) else {
            return;
        };
        let changed = Inherited {
            log: Arc::new(log),
            ..inherited.clone()
        };
        let error = heir.claim(NUMBER, 2, vec![changed]).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(
            error.to_string().contains("shard 5 in generation 1"),
            "{error}"
        );
        let opened = heir.open("Left", id(NUMBER, 1)).unwrap_err();
        assert_eq!(opened.kind(), ErrorKind::Moved);
    };
    for lacks in 0..owner.log.len() {
        let mut log = owner.log.clone();
        log.remove(lacks);
        refused(log, ErrorKind::Input);
    }
    refused(Vec::new(), ErrorKind::Input);
    for place in 0..owner.log.len() {
        let bytes = &owner.log[place];
        // Bytes 8 to 11 are the version of the format.
        for at in (0..bytes.len())
            .step_by(37)
            .filter(|at| !(8..12).contains(at))
        {
            let mut changed = bytes.to_vec();
            changed[at] ^= 16;
            let mut log = owner.log.clone();
            log[place] = changed.into();
            let error = EarlierLog::read(log).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        }
    }
    is_taken(&heir, &inherited);
}

#[test]
fn a_tenure_that_is_not_complete_is_not_adopted() {
    let (_, inherited) = left();
    let heir = Node::start();
    // The records before the object's second commit are missing.
    let since = Lsn::from(inherited.since.get() + 1);
    let cut = Inherited {
        since,
        ..inherited.clone()
    };
    let error = heir.claim(NUMBER, 2, vec![cut]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    is_taken(&heir, &inherited);
}

#[test]
fn generations_rise_and_claims_are_at_durable_positions() {
    let (owner, inherited) = left();
    let heir = Node::start();
    let claim = |generation, since: u64, parts: &[u32]| {
        let part = |generation: &u32| Inherited {
            generation: *generation,
            ..inherited.clone()
        };
        let claim = ShardClaim {
            shard: shard(NUMBER),
            generation,
            since: Lsn::from(since),
            floor: 0,
            inherited: parts.iter().map(part).collect(),
        };
        heir.store().claim_shard(&claim).unwrap_err()
    };
    for (error, told) in [
        (claim(2, 1, &[1]), "durable position"),
        (claim(1, 0, &[1]), "do not rise"),
        (claim(3, 0, &[2, 1]), "do not rise"),
        (claim(0, 0, &[]), "in that generation or a later one"),
    ] {
        assert!(error.to_string().contains(told), "{error}");
    }
    // The former owner has had the generation.
    let error = owner.claim(NUMBER, 1, Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    is_taken(&owner, &inherited);
    is_taken(&heir, &inherited);
    let error = heir.claim(NUMBER, 3, vec![inherited]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "it is open: {error}");
    let error = heir.store().forget_shard(shard(NUMBER)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "it is open: {error}");
    let error = heir.store().close_shard(shard(SHARDS[0])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "it is not owned: {error}");
}

#[test]
fn a_store_that_claims_shards_begins_in_an_empty_directory() {
    let open = |disk: &SimDisk, options: StoreOptions| {
        Store::open(Arc::new(disk.clone()), Path::new(DIR), options)
    };
    let disk = SimDisk::new();
    drop(manual(&disk));
    let error = open(&disk, options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    drop(manual(&disk));
    for wrong in [
        options().archive(ArchiveOptions::default()),
        options().max_bytes(Some(1 << 20)),
        options().await_copy(false),
        options().shared_namespaces(None),
    ] {
        let error = open(&SimDisk::new(), wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    }
}

#[test]
fn a_transaction_that_was_shipped_in_part_is_not_adopted() {
    let (mut owner, heir) = (Node::start(), Node::start());
    owner.claim(NUMBER, 1, Vec::new()).unwrap();
    let put = |value: u8, bytes: usize| {
        let db = owner.open("Left", id(NUMBER, 1)).unwrap();
        db.kv_put("k", &vec![value; bytes]).unwrap();
        db.commit().unwrap();
    };
    put(1, 100);
    // Several records.
    put(2, 900_000);
    owner.ship();
    let records = owner.log.len();
    assert!(records >= 4, "{records}");
    for shipped in 2..records {
        let mut inherited = owner.inherited(1, Lsn::ZERO, owner.shipped);
        let log = EarlierLog::read(owner.log[..shipped].iter().cloned());
        inherited.log = Arc::new(log.unwrap());
        let error = heir.claim(NUMBER, 2, vec![inherited.clone()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "a gap: {error}");
        inherited.until = owner.ends[shipped - 1];
        let heir = Node::start();
        heir.claim(NUMBER, 2, vec![inherited]).unwrap();
        let db = heir.open("Left", id(NUMBER, 1)).unwrap();
        assert_eq!(db.kv_get("k").unwrap().unwrap(), [1; 100], "{shipped}");
    }
}

/// Namespaces of which another store has another order.
struct OtherOrder;

impl SharedNamespaces for OtherOrder {
    fn with(&self, unique_key: &str) -> io::Result<Vec<String>> {
        Ok(["Left by none", unique_key].map(str::to_owned).to_vec())
    }
}

#[test]
fn a_log_with_other_numbers_of_classes_is_not_adopted() {
    let (_, inherited) = left();
    let other = options().shared_namespaces(Some(Arc::new(OtherOrder) as Arc<_>));
    let heir = Store::open(Arc::new(SimDisk::new()), Path::new(DIR), other).unwrap();
    heir.namespace("Another").unwrap();
    let claim = ShardClaim {
        shard: shard(NUMBER),
        generation: 2,
        since: Lsn::ZERO,
        floor: 0,
        inherited: vec![inherited],
    };
    let error = heir.claim_shard(&claim).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("has lost commits"), "{error}");
}

#[test]
fn a_shard_that_was_not_forgotten_is_not_claimed() {
    let mut node = Node::start();
    node.claim(NUMBER, 1, Vec::new()).unwrap();
    let db = node.open("Left", id(NUMBER, 1)).unwrap();
    db.set_alarm(Some(&AlarmRow::at(5))).unwrap();
    db.commit().unwrap();
    drop(db);
    node.ship();
    // The object leaves memory, and its file and its alarm stay.
    node.store().checkpoint().unwrap();
    let until = node.store().close_shard(shard(NUMBER)).unwrap();
    let inherited = node.inherited(1, Lsn::ZERO, until);
    let error = node.claim(NUMBER, 2, vec![inherited.clone()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    node.store().forget_shard(shard(NUMBER)).unwrap();
    node.claim(NUMBER, 2, vec![inherited]).unwrap();
}
