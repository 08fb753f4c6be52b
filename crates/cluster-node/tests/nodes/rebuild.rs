//! A database that is lost for good, and its cluster from the object store.

use std::{collections::BTreeMap, fs, thread::sleep, time::Duration};

use abide_cluster::{SHARDS, Shard};
use abide_cluster_node::{Member, RebuildError};
use abide_cluster_postgres::Catalogue;
use abide_history::newest_catalogue;
use abide_storage::{AlarmRow, ObjectDb, ObjectKey};

use crate::{
    members::{RUNS, World, until},
    process::id,
};

const OBJECTS: u16 = 40;

fn open(member: &Member, object: u16) -> ObjectDb {
    let namespace = member.store().namespace("Rebuilt").unwrap();
    let id = id(Shard(object * (SHARDS / OBJECTS)));
    let db = member.store().open_object(ObjectKey { namespace, id });
    db.unwrap()
}

/// Sets two values and the alarm of an object to a number, in one commit, and waits until it is durable.
fn put(member: &Member, object: u16, number: u32) -> String {
    let db = open(member, object);
    for key in ["one", "two"] {
        db.kv_put(key, &number.to_be_bytes()).unwrap();
    }
    let alarm = AlarmRow::at(i64::from(number));
    db.set_alarm(Some(&alarm)).unwrap();
    let end = db.commit().unwrap().unwrap();
    until(|| member.store().durable() >= end);
    db.bookmark().to_string()
}

/// What an object has, all of one commit.
fn get(member: &Member, object: u16) -> Option<u32> {
    let db = open(member, object);
    let number = |key| {
        let value = db.kv_get(key).unwrap();
        value.map(|value| u32::from_be_bytes(value.try_into().unwrap()))
    };
    let (one, two) = (number("one"), number("two"));
    let due = db
        .alarm()
        .unwrap()
        .map(|row| u32::try_from(row.entry().due).unwrap());
    assert_eq!((one, one), (two, due));
    one
}

fn catalogue(world: &World) -> Option<Catalogue> {
    let store = world.runs();
    let found = world.runtime.block_on(newest_catalogue(&store)).unwrap();
    found.map(|found| serde_json::from_slice(&found).unwrap())
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_lost_database_costs_what_was_in_no_run() {
    let world = World::start();
    world.lose();
    let error = world.rebuild().unwrap_err();
    assert!(matches!(error, RebuildError::None(_)), "{error}");
    world.runtime.block_on(world.database.init()).unwrap();
    let member = world.first();
    until(|| member.shards() == SHARDS as usize);
    for object in 0..OBJECTS {
        put(&member, object, 1);
    }
    member.store().checkpoint().unwrap();
    // The catalogue has the runs with all of it.
    let (session, upto) = (member.session().number, member.store().checkpointed().get());
    until(|| {
        world.is(&format!(
            "select archived >= {upto} and (select catalogued >= (select max(seq) from abide_cluster.run) from abide_cluster.version) \
             from abide_cluster.lane where session = {session}"
        ))
    });
    let error = world.rebuild().unwrap_err();
    assert!(
        error.to_string().contains("has the tables of a cluster"),
        "{error}"
    );

    // Under load.
    let mut acknowledged = BTreeMap::new();
    for number in 2..40 {
        for object in 0..OBJECTS / 2 {
            let bookmark = put(&member, object, number);
            acknowledged.insert(object, (number, bookmark));
        }
        if number % 8 == 0 {
            member.store().checkpoint().unwrap();
            sleep(Duration::from_millis(300));
        }
    }
    world.lose();
    drop(member);
    let rebuilt = world.rebuild().unwrap();
    let first = catalogue(&world).unwrap();
    assert_eq!(
        (&first.runs, &first.namespaces),
        (&rebuilt.runs, &rebuilt.namespaces)
    );
    assert!(first.number > rebuilt.number && first.cluster != rebuilt.cluster);
    let rise = first.shards.iter().zip(&rebuilt.shards);
    assert!(
        rise.into_iter()
            .all(|(new, old)| new.0 > old.0 && new.1 > old.1)
    );

    let member = world.join(world.home("another")).unwrap();
    until(|| member.shards() == SHARDS as usize);
    let mut later = 0;
    for object in 0..OBJECTS {
        let found = get(&member, object).unwrap();
        let last = acknowledged.get(&object).map_or(1, |(number, _)| *number);
        assert!(
            (1..=last).contains(&found),
            "object {object} has {found} of {last}"
        );
        later += u32::from(found > 1);
    }
    assert!(later > 0, "nothing of the load is in runs");
    // What is committed from now on is above all that is lost.
    for (object, (_, lost)) in acknowledged {
        let bookmark = put(&member, object, 1_000);
        assert!(bookmark > lost, "{bookmark} and {lost}");
        assert_eq!(get(&member, object), Some(1_000));
    }
    member.store().checkpoint().unwrap();
    until(|| catalogue(&world).unwrap().seq > rebuilt.seq);
    drop(member);

    // Again, and without a run.
    world.lose();
    let lost = catalogue(&world).unwrap();
    let place = abide_history::StoredRun::at(&lost.runs[0].place).unwrap();
    fs::remove_file(world.dir.path().join(RUNS).join(place.key)).unwrap();
    let error = world.rebuild().unwrap_err();
    assert!(matches!(error, RebuildError::Missing(_, 1, _)), "{error}");
}
