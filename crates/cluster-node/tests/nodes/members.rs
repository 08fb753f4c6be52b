//! Members in one process.

use std::{
    fs,
    sync::{Arc, Mutex},
    thread::sleep,
    time::{Duration, Instant},
};

use abide_cluster::{Ended, SHARDS, Shard};
use abide_cluster_node::{End, Home, JoinError, Member, RebuildError, Settings, now, rebuild};
use abide_cluster_postgres::{Accept, Catalogue, Database};
use abide_harness::Postgres;
use abide_history::Store;
use abide_storage::{ErrorKind, ObjectDb, ObjectKey, StoreOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::process::{id, stored_runs};

const PATIENCE: Duration = Duration::from_mins(1);
pub(crate) const SHARD: Shard = Shard(77);
/// The directory with runs.
pub(crate) const RUNS: &str = "runs";

/// A server, and the directories of members.
pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) runtime: Runtime,
    pub(crate) dir: TempDir,
    pub(crate) postgres: Mutex<Postgres>,
}

impl World {
    pub(crate) fn start() -> Self {
        let postgres = Postgres::start();
        let database = Database::new(&postgres.address(), Accept::Local).unwrap();
        let runtime = Runtime::new().unwrap();
        runtime.block_on(database.init()).unwrap();
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join(RUNS)).unwrap();
        Self {
            database,
            runtime,
            dir,
            postgres: Mutex::new(postgres),
        }
    }

    pub(crate) fn home(&self, name: &str) -> Home {
        Home::open(&self.dir.path().join(name)).unwrap()
    }

    /// The only member.
    pub(crate) fn first(&self) -> Member {
        let first = self.join(self.home("first")).unwrap();
        until(|| first.serves(SHARD));
        first
    }

    /// An administrator of the database.
    pub(crate) fn admin(&self) -> tokio_postgres::Client {
        let address = self.postgres.lock().unwrap().address();
        self.runtime.block_on(async {
            let connected = tokio_postgres::connect(&address, tokio_postgres::NoTls).await;
            let (client, connection) = connected.unwrap();
            tokio::spawn(connection);
            client
        })
    }

    /// What a query says.
    pub(crate) fn is(&self, query: &str) -> bool {
        let admin = self.admin();
        let row = self.runtime.block_on(admin.query_one(query, &[]));
        row.unwrap().get(0)
    }

    /// The database is lost, and another is empty.
    pub(crate) fn lose(&self) {
        let admin = self.admin();
        let lose = admin.batch_execute("drop schema abide_cluster cascade");
        self.runtime.block_on(lose).unwrap();
    }

    pub(crate) fn rebuild(&self) -> Result<Catalogue, RebuildError> {
        let runs = self.runs();
        self.runtime.block_on(rebuild(&self.database, &runs))
    }

    pub(crate) fn join(&self, home: Home) -> Result<Member, JoinError> {
        self.join_at(home, 0)
    }

    /// On a machine whose clock is ahead by this many milliseconds.
    pub(crate) fn join_at(&self, home: Home, ahead: i64) -> Result<Member, JoinError> {
        let options = StoreOptions::small();
        let right = options.unix_millis.clone();
        let options = options.unix_millis(Arc::new(move || right().saturating_add_signed(ahead)));
        Member::join(home, self.settings(self.runs()), options)
    }

    /// With its runs elsewhere.
    pub(crate) fn join_with(&self, home: Home, runs: Store) -> Result<Member, JoinError> {
        Member::join(home, self.settings(runs), StoreOptions::small())
    }

    pub(crate) fn runs(&self) -> Store {
        stored_runs(&self.dir.path().join(RUNS))
    }

    fn settings(&self, runs: Store) -> Settings {
        let mut settings = Settings::new(self.database.clone(), runs);
        settings.run_every = Duration::from_millis(100);
        settings.keep_replaced = Duration::ZERO;
        settings
    }
}

pub(crate) fn until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < PATIENCE, "it does not happen");
        sleep(Duration::from_millis(2));
    }
}

pub(crate) fn open(member: &Member) -> ObjectDb {
    let namespace = member.store().namespace("Opened").unwrap();
    let id = id(SHARD);
    member
        .store()
        .open_object(ObjectKey { namespace, id })
        .unwrap()
}

pub(crate) fn put(member: &Member, db: &ObjectDb, value: &[u8]) {
    db.kv_put("k", value).unwrap();
    let end = db.commit().unwrap().unwrap();
    until(|| member.store().durable() >= end);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_member_that_is_started_again_has_its_own_shards() {
    let world = World::start();
    let first = world.first();
    until(|| first.shards() == SHARDS as usize);
    let other = world.join(world.home("other")).unwrap();
    let db = open(&first);
    put(&first, &db, b"first");
    drop(db);
    let renewals = format!(
        "select renewals >= 7 from abide_cluster.lease where session = {}",
        first.session().number
    );
    until(|| world.is(&renewals));
    // As in a crash: it does not leave.
    drop(first);
    let again = world.join(world.home("first")).unwrap();
    until(|| again.shards() == SHARDS as usize);
    assert_eq!(open(&again).kv_get("k").unwrap().unwrap(), b"first");
    assert_eq!(other.shards(), 0);

    // One that ends soon after its start leaves them to others.
    drop(again);
    let again = world.join(world.home("first")).unwrap();
    until(|| again.shards() + other.shards() == SHARDS as usize);
    assert!(other.shards() > 0);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn what_is_read_of_a_shard_that_was_given_away_is_not_shown() {
    let world = World::start();
    let old = world.first();
    let new = world.join(world.home("new")).unwrap();
    let stale = open(&old);
    put(&old, &stale, b"first");
    assert!(old.may_release(SHARD, now()));

    assert!(old.give(SHARD, new.session()));
    assert!(!old.serves(SHARD) && !old.give(SHARD, new.session()));
    until(|| new.serves(SHARD));
    let db = open(&new);
    assert_eq!(db.kv_get("k").unwrap().unwrap(), b"first");
    put(&new, &db, b"second");
    // Its object is still open, and its lease is held.
    assert_eq!(stale.kv_get("k").unwrap().unwrap(), b"first");
    assert!(!old.may_release(SHARD, now()) && old.may_release(Shard(78), now()));
    stale.kv_put("k", b"third").unwrap();
    assert_eq!(stale.commit().unwrap_err().kind(), ErrorKind::Moved);

    // It comes back once the object is closed.
    drop(stale);
    drop(db);
    assert!(new.give(SHARD, old.session()));
    until(|| old.serves(SHARD));
    assert_eq!(open(&old).kv_get("k").unwrap().unwrap(), b"second");
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_commit_is_acknowledged_once_the_database_has_it() {
    let world = World::start();
    let member = world.first();
    let db = open(&member);
    put(&member, &db, b"first");
    let admin = world.admin();
    let lock = "begin; select from abide_cluster.lane for update";
    world.runtime.block_on(admin.batch_execute(lock)).unwrap();
    db.kv_put("k", b"second").unwrap();
    let end = db.commit().unwrap().unwrap();
    until(|| member.store().durable_here() >= end);
    sleep(Duration::from_millis(300));
    assert!(member.store().durable() < end);
    let unlock = admin.batch_execute("commit");
    world.runtime.block_on(unlock).unwrap();
    until(|| member.store().durable() >= end);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn an_object_that_is_created_again_after_a_move_has_higher_numbers() {
    let world = World::start();
    let old = world.first();
    let new = world.join(world.home("new")).unwrap();
    let db = open(&old);
    for value in 0..20_u8 {
        put(&old, &db, &vec![value; 50_000]);
    }
    drop(db);
    // The object is deleted and created, so that its numbers begin high in this log.
    let delete = |member: &Member| {
        let db = open(member);
        db.delete_all().unwrap();
        let end = db.commit().unwrap().unwrap();
        until(|| member.store().durable() >= end);
    };
    let create = |member: &Member| {
        let db = open(member);
        put(member, &db, b"new");
        db.timeline().unwrap().id
    };
    delete(&old);
    let before = create(&old);
    assert!(before.position() > 100_000);
    delete(&old);
    assert!(old.give(SHARD, new.session()));
    until(|| new.serves(SHARD));
    let after = create(&new);
    assert!(after > before && after.position() > before.position());
}

#[test]
#[ignore = "needs PostgreSQL"]
fn members_have_one_clock_although_their_machines_differ() {
    const TOLERANCE: u64 = 300;
    let world = World::start();
    let fast = world.join_at(world.home("fast"), 1_200).unwrap();
    let slow = world.join_at(world.home("slow"), -900).unwrap();
    let before = fast.store().unix_millis();
    let between = slow.store().unix_millis();
    let after = fast.store().unix_millis();
    assert!(
        (before - TOLERANCE..=after + TOLERANCE).contains(&between),
        "{before}, {between}, {after}"
    );
    for (name, ahead) in [("wrong", 5_000), ("past", -5_000)] {
        let error = world.join_at(world.home(name), ahead).unwrap_err();
        assert!(matches!(error, JoinError::Clock(_)), "{error}");
    }
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_member_that_leaves_gives_all_shards_away_with_its_commits() {
    let world = World::start();
    let old = world.first();
    let new = world.join(world.home("new")).unwrap();
    let db = open(&old);
    put(&old, &db, b"first");
    db.kv_put("k", b"second").unwrap();
    db.commit().unwrap().unwrap();
    let lease = old.lease().unwrap();
    assert!(old.may_release(SHARD, now()) && lease.is_held());

    let leaving = async { tokio::join!(old.leave(), async { old.may_release(SHARD, now()) }) };
    let (has_left, may_release) = world.runtime.block_on(leaving);
    assert!(has_left && !may_release && !lease.is_held());
    assert_eq!(old.end(), Some(End::Left));
    assert!(!old.serves(SHARD) && old.shards() == 0);
    // Others need not wait until it has been silent for long.
    let session = old.session().number;
    let is_fenced = format!("select is_fenced from abide_cluster.session where number = {session}");
    assert!(world.is(&is_fenced));
    db.kv_put("k", b"third").unwrap();
    assert!(db.commit().is_err());

    until(|| new.shards() == usize::from(SHARDS));
    let db = open(&new);
    assert_eq!(db.kv_get("k").unwrap().unwrap(), b"second");
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_member_whose_database_does_not_answer_says_that_it_has_not_left() {
    let world = World::start();
    let member = world.first();
    world.postgres.lock().unwrap().kill();
    assert!(!world.runtime.block_on(member.leave()));
    assert!(!member.may_release(SHARD, now()));
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_member_that_is_fenced_acknowledges_nothing_more() {
    let world = World::start();
    let mut home = world.home("one");
    let id = home.id();
    let member = world.join(home).unwrap();
    until(|| member.serves(SHARD));
    let db = open(&member);
    put(&member, &db, b"first");
    // A later start of the same directory.
    let begun = world.database.begin(id, 9, 9);
    world.runtime.block_on(begun).unwrap().unwrap();
    db.kv_put("k", b"second").unwrap();
    let late = db.commit().unwrap().unwrap();
    let end = world.runtime.block_on(member.ended());
    assert_eq!(end, End::Session(Ended::Fenced));
    assert!(member.store().durable() < late && member.store().failed());
    assert!(!member.may_release(SHARD, Duration::ZERO));
    drop(db);
    drop(member);
    home = world.home("one");
    let error = world.join(home).unwrap_err();
    assert!(matches!(error, JoinError::Copied(_)), "{error}");
}
