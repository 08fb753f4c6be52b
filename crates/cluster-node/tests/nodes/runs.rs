//! Runs that members make and find.

use std::{
    fs::{self, File},
    net::TcpListener,
    thread::sleep,
    time::{Duration, Instant},
};

use abide_cluster::{SHARDS, Shard};
use abide_cluster_node::Member;
use abide_history::{Access, Connector, Store};
use abide_storage::ObjectKey;

use crate::{
    members::{RUNS, SHARD, World, open, put, until},
    process::id,
};

const ALL: usize = SHARDS as usize;

/// Waits until all that a member has logged so far is in runs.
fn until_archived(world: &World, member: &Member) {
    // What checkpoints have written is archived.
    member.store().checkpoint().unwrap();
    let (session, upto) = (member.session().number, member.store().checkpointed().get());
    until(|| {
        world.is(&format!(
            "select archived >= {upto} from abide_cluster.lane where session = {session}"
        ))
    });
}

fn runs(world: &World) -> usize {
    world
        .runtime
        .block_on(world.database.status())
        .unwrap()
        .runs as usize
}

/// Puts a value into an object of each shard.
fn put_everywhere(member: &Member, value: &[u8]) {
    let namespace = member.store().namespace("Everywhere").unwrap();
    let mut end = None;
    for shard in (0..SHARDS).map(Shard) {
        let id = id(shard);
        let db = member.store().open_object(ObjectKey { namespace, id });
        let db = db.unwrap();
        db.kv_put("k", value).unwrap();
        end = db.commit().unwrap();
    }
    until(|| Some(member.store().durable()) >= end);
}

fn is_everywhere(member: &Member, value: &[u8]) -> bool {
    let namespace = member.store().namespace("Everywhere").unwrap();
    (0..SHARDS).map(Shard).all(|shard| {
        let id = id(shard);
        let db = member.store().open_object(ObjectKey { namespace, id });
        db.unwrap().kv_get("k").unwrap().as_deref() == Some(value)
    })
}

#[test]
#[ignore = "needs PostgreSQL"]
fn what_is_in_runs_leaves_the_database_and_is_found_by_others() {
    let world = World::start();
    let first = world.first();
    until(|| first.shards() == ALL);
    put_everywhere(&first, b"first");
    until_archived(&world, &first);
    let log = format!("abide_cluster.log_{:032x}", first.session().nonce);
    // In the log alone.
    let db = open(&first);
    put(&first, &db, b"late");
    drop(db);
    drop(first);

    let second = world.join(world.home("second")).unwrap();
    until(|| second.shards() == ALL);
    assert!(is_everywhere(&second, b"first"));
    assert_eq!(open(&second).kv_get("k").unwrap().unwrap(), b"late");
    // What it has inherited goes into a run, too, and the first member's tables go.
    until_archived(&world, &second);
    let is_gone = format!("select to_regclass('{log}_0') is null");
    until(|| world.is(&is_gone));
    drop(second);

    let third = world.join(world.home("third")).unwrap();
    until(|| third.shards() == ALL);
    assert!(is_everywhere(&third, b"first"));
    assert_eq!(open(&third).kv_get("k").unwrap().unwrap(), b"late");
}

#[test]
#[ignore = "needs PostgreSQL"]
fn while_the_store_of_runs_is_gone_members_commit_and_give_shards_away() {
    let world = World::start();
    let old = world.first();
    let new = world.join(world.home("new")).unwrap();
    let db = open(&old);
    put(&old, &db, b"first");
    until_archived(&world, &old);
    let before = runs(&world);
    let dir = world.dir.path().join(RUNS);
    let away = world.dir.path().join("away");
    fs::rename(&dir, &away).unwrap();
    File::create(&dir).unwrap();
    put(&old, &db, b"second");
    drop(db);
    old.store().checkpoint().unwrap();
    // A run is tried, and does not keep the shard.
    sleep(Duration::from_secs(1));
    assert!(old.give(SHARD, new.session()));
    until(|| !new.unserved().is_empty() || new.serves(SHARD));
    assert_eq!(runs(&world), before);

    fs::remove_file(&dir).unwrap();
    fs::rename(&away, &dir).unwrap();
    until(|| new.serves(SHARD));
    assert_eq!(open(&new).kv_get("k").unwrap().unwrap(), b"second");
    until(|| runs(&world) > before);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn what_follows_a_run_in_the_log_is_read_without_it() {
    let world = World::start();
    let first = world.first();
    let db = open(&first);
    db.exec("CREATE TABLE t (v INTEGER)", ()).unwrap();
    for value in 0..200 {
        db.exec("INSERT INTO t VALUES (?1)", [value]).unwrap();
    }
    put(&first, &db, b"first");
    until_archived(&world, &first);
    // Each commit changes little of a page that the log has had since the checkpoint.
    for value in 200..203 {
        db.exec("INSERT INTO t VALUES (?1)", [value]).unwrap();
        put(&first, &db, b"later");
        sleep(Duration::from_millis(300));
    }
    // This one is in no run.
    db.exec("INSERT INTO t VALUES (?1)", [203]).unwrap();
    put(&first, &db, b"last");
    drop(db);
    drop(first);
    let second = world.join(world.home("second")).unwrap();
    until(|| second.serves(SHARD));
    let db = open(&second);
    let count = db.exec("SELECT count(*) FROM t", ()).unwrap();
    assert_eq!(count.all::<i64>().unwrap(), [204]);
}

/// The files of runs in the object store.
fn files(world: &World) -> usize {
    let mut dirs = vec![world.dir.path().join(RUNS)];
    let mut files = 0;
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|of| of == "run") {
                files += 1;
            }
        }
    }
    files
}

#[test]
#[ignore = "needs PostgreSQL"]
fn runs_are_merged_and_those_that_were_replaced_are_removed() {
    let world = World::start();
    let first = world.first();
    let second = world.join(world.home("second")).unwrap();
    put_everywhere(&first, b"everywhere");
    let db = open(&first);
    let mut value = 0_u32;
    let mut make_runs = |count: u32| {
        for _ in 0..count {
            value += 1;
            put(&first, &db, &value.to_be_bytes());
            until_archived(&world, &first);
        }
        value
    };
    make_runs(20);
    // Up to seven of each size are left.
    until(|| runs(&world) < 16);
    // With later merges, once the other member knows the list.
    let mut rounds = 0;
    while files(&world) > 16 {
        make_runs(1);
        rounds += 1;
        assert!(rounds < 100, "{} files", files(&world));
    }
    let last = make_runs(1);
    drop(db);
    drop(first);
    until(|| second.shards() == ALL);
    assert!(is_everywhere(&second, b"everywhere"));
    let found = open(&second).kv_get("k").unwrap().unwrap();
    assert_eq!(found, last.to_be_bytes());
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_shard_is_given_away_although_the_store_of_runs_is_silent() {
    let world = World::start();
    // It accepts connections and answers nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let access = Access::from_env()
        .option(
            "endpoint",
            format!("http://{}", silent.local_addr().unwrap()),
        )
        .option("allow_http", "true")
        .option("region", "nowhere")
        .option("access_key_id", "none")
        .option("secret_access_key", "none");
    let location = "s3://runs".parse().unwrap();
    let join = |name: &str| {
        let tls = rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let runs = Store::open(&location, &access, Connector::new(tls)).unwrap();
        world.join_with(world.home(name), runs).unwrap()
    };
    let old = join("old");
    until(|| old.serves(SHARD));
    let new = join("new");
    // Those of members that looked whose store it is when they joined.
    silent.set_nonblocking(true).unwrap();
    while silent.accept().is_ok() {}
    silent.set_nonblocking(false).unwrap();
    let db = open(&old);
    put(&old, &db, b"first");
    drop(db);
    old.store().checkpoint().unwrap();
    let (_connection, _) = silent.accept().unwrap();
    // Meanwhile a run has begun, which waits for the store, too.
    sleep(Duration::from_millis(500));
    let begun = Instant::now();
    assert!(old.give(SHARD, new.session()));
    until(|| new.serves(SHARD));
    // Less than it takes until the store is given up.
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(open(&new).kv_get("k").unwrap().unwrap(), b"first");
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_member_without_changes_makes_no_runs() {
    let world = World::start();
    let member = world.first();
    let db = open(&member);
    put(&member, &db, b"first");
    until_archived(&world, &member);
    let before = runs(&world);
    assert!(before > 0);
    for _ in 0..5 {
        member.store().checkpoint().unwrap();
        sleep(Duration::from_millis(300));
    }
    assert_eq!(runs(&world), before);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn no_member_joins_with_the_object_store_of_another_cluster() {
    let world = World::start();
    let first = world.first();
    put(&first, &open(&first), b"first");
    until_archived(&world, &first);
    drop(first);
    // Another cluster, with the object store of this one.
    world.lose();
    world.runtime.block_on(world.database.init()).unwrap();
    let refused = world.join(world.home("other")).unwrap_err().to_string();
    assert!(refused.contains("runs of another cluster"), "{refused}");
    assert!(refused.contains("abide cluster rebuild"), "{refused}");
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_member_whose_store_another_cluster_has_taken_makes_no_runs() {
    let world = World::start();
    let first = world.first();
    put(&first, &open(&first), b"first");
    until_archived(&world, &first);
    let before = runs(&world);
    let store = world.runs();
    let taken = abide_history::take_store(&store, 77);
    world.runtime.block_on(taken).unwrap();
    put(&first, &open(&first), b"second");
    first.store().checkpoint().unwrap();
    until(|| {
        let why = first.unarchived();
        why.is_some_and(|why| why.contains("runs of another cluster"))
    });
    assert_eq!(runs(&world), before);
}
