//! Timelines of an imported object rise above those that it had in another directory.

use abide_storage::{
    Afterwards, ArchiveOptions, Bookmark, Repair, SimDisk, Store, TimelineId, TimelinesEnd,
};

use super::{delete, export, import_as, objects};
use crate::{
    common::{flush, key, manual, open},
    recovery_points::world::{World, noise},
};

fn put(store: &Store, id: u8, len: usize) {
    let db = open(store, id);
    db.kv_put("k", &noise(len as u64, len)).unwrap();
    db.commit().unwrap();
    drop(db);
    flush(store);
}

fn timeline(store: &Store, id: u8) -> TimelineId {
    open(store, id).timeline().unwrap().id
}

/// An export of a directory with a long log, many starts, and a restore: the object, what its timelines are below, and the
/// newest of them.
fn exported() -> (Vec<u8>, TimelinesEnd, TimelineId) {
    let mut world = World::new(ArchiveOptions::default());
    for round in 0..6 {
        put(&world.store, 2, 200_000 + round);
        put(&world.store, 1, 100);
        world.reopen();
    }
    let at = world.store.bookmark(key(&world.store, 1)).unwrap();
    world.restore(1, &at).unwrap();
    let newest = timeline(&world.store, 1);
    let cut = world.store.cut().unwrap();
    let found = objects(&world.store, &cut, 9).unwrap();
    assert_eq!(found.len(), 2);
    (
        export(&world.store, key(&world.store, 1)),
        cut.timelines(),
        newest,
    )
}

/// A sequence of timelines, each of which must be above the one before, in both ways in which they compare.
struct Rising(TimelineId);

impl Rising {
    fn next(&mut self, next: TimelineId, what: &str) {
        assert!(next > self.0, "{what}: {next} is not above {}", self.0);
        assert!(next.to_string() > self.0.to_string(), "{what}");
        assert!(next.position() > self.0.position(), "{what}");
        self.0 = next;
    }
}

#[test]
fn timelines_rise_above_those_of_the_directory_that_was_left() {
    let (bytes, end, newest) = exported();
    for above in [Some(end), None] {
        let mut rising = Rising(newest);
        let disk = SimDisk::new();
        let mut store = manual(&disk);
        import_as(&store, key(&store, 1), &bytes, above, Afterwards::Act).unwrap();
        let imported = timeline(&store, 1);
        rising.next(imported, "imported");
        if above.is_some() {
            let end: TimelinesEnd = end.to_string().parse().unwrap();
            let at = imported.to_string();
            assert!(at > end.to_string(), "{at}");
        }
        drop(store);
        store = manual(&disk.after_kill());
        let at: Bookmark = store.bookmark(key(&store, 1)).unwrap();
        put(&store, 1, 300);
        store.restore(key(&store, 1), &at).unwrap();
        rising.next(timeline(&store, 1), "restored");
        delete(&store, key(&store, 1));
        put(&store, 1, 10);
        rising.next(timeline(&store, 1), "another life");
        // What is imported again comes above that, too.
        let bytes = export(&store, key(&store, 1));
        let again = store.timelines_end();
        let third = manual(&SimDisk::new());
        import_as(&third, key(&third, 1), &bytes, Some(again), Afterwards::Act).unwrap();
        rising.next(timeline(&third, 1), "imported again");
    }
}

#[test]
fn positions_and_bookmarks_are_as_without_an_import() {
    let (bytes, end, _) = exported();
    let disk = SimDisk::new();
    let store = manual(&disk);
    let before = store.appended();
    import_as(&store, key(&store, 1), &bytes, Some(end), Afterwards::Act).unwrap();
    let bookmark = store.bookmark(key(&store, 1)).unwrap().to_string();
    let position = u64::from_str_radix(bookmark.split('-').nth(1).unwrap(), 16).unwrap();
    assert!(position > before.get() && position <= store.appended().get());
}

#[test]
fn an_object_that_begins_anew_after_damage_has_a_higher_timeline() {
    let (bytes, end, _) = exported();
    let disk = SimDisk::new();
    let store = manual(&disk);
    import_as(&store, key(&store, 1), &bytes, Some(end), Afterwards::Act).unwrap();
    let imported = timeline(&store, 1);
    store.close().unwrap();
    let path = store.object_path(key(&store, 1)).unwrap();
    drop(store);
    disk.flip(&path, 0);
    let store = manual(&disk.after_kill());
    store.repair(key(&store, 1), Repair::Anew).unwrap();
    Rising(imported).next(timeline(&store, 1), "anew");
}
