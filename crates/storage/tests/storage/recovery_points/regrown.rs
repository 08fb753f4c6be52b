//! Objects that shrink and grow again, partly by pages that SQLite never writes: those that a transaction both adds and
//! frees.

use abide_storage::{ArchiveOptions, Bookmark, ObjectDb};

use crate::{
    common::{flush, key, open, read_file},
    recovery_points::world::World,
};

const PAGE: usize = 4096;
/// Ten pages and more.
const LARGE: usize = 50_000;
/// What fills them, and nothing else.
const MARK: u8 = 0xa7;

fn commit(world: &World, write: impl FnOnce(&ObjectDb)) -> Bookmark {
    let db = open(&world.store, 1);
    write(&db);
    db.commit().unwrap();
    flush(&world.store);
    db.bookmark()
}

fn put_large(world: &World, byte: u8) -> Bookmark {
    commit(world, |db| db.kv_put("large", &vec![byte; LARGE]).unwrap())
}

/// Adds this many bytes' pages to the object's database, which are free.
fn add_free_pages(world: &World, bytes: usize) -> Bookmark {
    commit(world, |db| {
        db.kv_put("passing", &vec![0; bytes]).unwrap();
        db.kv_delete("passing").unwrap();
    })
}

/// The value of an object, which must be sound.
fn large_of(db: &ObjectDb) -> Option<Vec<u8>> {
    let check = db.exec("PRAGMA integrity_check", ()).unwrap();
    assert_eq!(check.one::<String>().unwrap(), "ok");
    db.kv_get("large").unwrap()
}

fn large_now(world: &World) -> Option<Vec<u8>> {
    large_of(&open(&world.store, 1))
}

fn large_at(world: &World, bookmark: &Bookmark) -> Option<Vec<u8>> {
    let (from, to) = (key(&world.store, 1), world.unused());
    world.store.fork(from, bookmark, to, None).unwrap();
    large_of(&world.store.open_object(to).unwrap())
}

fn file(world: &World) -> Vec<u8> {
    let path = world.store.object_path(key(&world.store, 1)).unwrap();
    read_file(&world.disk, &path)
}

/// The pages of a file that are full of `byte`, behind the pointer to the next.
fn pages_full_of(file: &[u8], byte: u8) -> Vec<usize> {
    let is_full = |page: &[u8]| page[4..].iter().all(|&found| found == byte);
    let pages = file.chunks_exact(PAGE).enumerate();
    let full = pages.filter(|(_, page)| is_full(page));
    full.map(|(at, _)| at).collect()
}

#[test]
fn s20_the_history_has_the_pages_that_a_restore_regrows() {
    let mut world = World::new(ArchiveOptions::default());
    let small = world.put(1, "small");
    let large = put_large(&world, MARK);
    world.store.checkpoint().unwrap();
    world.restore(1, &small).unwrap();
    add_free_pages(&world, 2 * LARGE);
    world.restore(1, &large).unwrap();
    let restored = open(&world.store, 1).bookmark();
    assert!(large_now(&world) == Some(vec![MARK; LARGE]));
    assert!(large_at(&world, &restored) == Some(vec![MARK; LARGE]));
    world.reopen();
    assert!(large_now(&world) == Some(vec![MARK; LARGE]));
    // Builds on the same pages, in the archive too.
    let later = commit(&world, |db| db.kv_put("more", &[1; 9_000]).unwrap());
    assert!(large_at(&world, &later) == Some(vec![MARK; LARGE]));
}

#[test]
fn deleting_everything_shrinks_an_object_and_keeps_its_history() {
    let world = World::new(ArchiveOptions::default());
    let large = put_large(&world, MARK);
    world.store.checkpoint().unwrap();
    commit(&world, |db| db.delete_all().unwrap());
    add_free_pages(&world, 2 * LARGE);
    world.restore(1, &large).unwrap();
    let restored = open(&world.store, 1).bookmark();
    assert!(large_at(&world, &restored) == Some(vec![MARK; LARGE]));
}

#[test]
fn s20_pages_that_a_shrink_took_away_do_not_come_back_in_the_file() {
    for is_recovered in [false, true] {
        let mut world = World::new(ArchiveOptions::default());
        let small = world.put(1, "small");
        put_large(&world, MARK);
        world.store.checkpoint().unwrap();
        assert!(pages_full_of(&file(&world), MARK).len() >= 10);
        world.restore(1, &small).unwrap();
        add_free_pages(&world, 2 * LARGE);
        if is_recovered {
            world.reopen();
        }
        world.store.checkpoint().unwrap();
        assert!(file(&world).len() > 2 * LARGE);
        assert!(pages_full_of(&file(&world), MARK).is_empty());
        assert_eq!(large_now(&world), None);
    }
}

#[test]
fn an_object_that_grew_by_unwritten_pages_survives_a_kill() {
    let mut world = World::new(ArchiveOptions::default());
    world.put(1, "small");
    let grown = add_free_pages(&world, 40 * LARGE);
    world.reopen();
    assert_eq!(large_now(&world), None);
    put_large(&world, MARK);
    world.reopen();
    assert!(large_now(&world) == Some(vec![MARK; LARGE]));
    assert_eq!(large_at(&world, &grown), None);
}
