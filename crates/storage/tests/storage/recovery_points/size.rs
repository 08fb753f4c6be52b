//! What keeps the archive small: merged runs, the retention, the size cap.

use std::time::Duration;

use abide_storage::{ArchiveOptions, ErrorKind};

use crate::{
    common::{key, open},
    recovery_points::world::{MINUTE, World, noise, put_noise},
};

#[test]
fn runs_are_merged_so_that_a_busy_month_is_a_handful_of_files() {
    let world = World::new(ArchiveOptions::default());
    let mut bookmarks = Vec::new();
    for i in 0..200 {
        world.pass(MINUTE);
        bookmarks.push(world.put(1, &format!("value {i}")));
        world.put(2 + i % 90, "other");
        world.store.checkpoint().unwrap();
        world.keep();
    }
    assert!(world.runs().len() <= 3 * 7, "{:?}", world.runs());
    for (i, bookmark) in bookmarks.iter().enumerate() {
        assert_eq!(
            world.at(1, bookmark).unwrap().unwrap(),
            format!("value {i}")
        );
    }
}

#[test]
fn history_older_than_the_retention_is_folded_and_the_rest_stays() {
    let world = World::new(ArchiveOptions::default().retention(Duration::from_mins(100)));
    world.put(2, "idle");
    let mut bookmarks = Vec::new();
    for i in 0..400 {
        world.pass(MINUTE);
        bookmarks.push(world.put(1, &format!("value {i}")));
        world.store.checkpoint().unwrap();
        world.keep();
    }
    let horizon = world.now() - 100 * MINUTE;
    assert!(world.store.stats().archive_horizon_ms <= horizon);
    assert!(world.store.stats().archive_horizon_ms > horizon - 60 * MINUTE);
    for (i, bookmark) in bookmarks.iter().enumerate().skip(300) {
        assert_eq!(
            world.at(1, bookmark).unwrap().unwrap(),
            format!("value {i}")
        );
    }
    let error = world.at(1, &bookmarks[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("begins at"), "{error}");
    let now = world.now();
    let idle = world.store.bookmark_at(key(&world.store, 2), now);
    assert_eq!(world.at(2, &idle.unwrap()).unwrap().unwrap(), "idle");
}

#[test]
fn a_busy_object_does_not_cost_its_whole_history() {
    let world = World::new(ArchiveOptions::default().retention(Duration::from_mins(50)));
    let db = open(&world.store, 1);
    let mut most = 0;
    for round in 0..400_u64 {
        world.pass(MINUTE);
        // 20 KiB a minute, 8 MB in all.
        db.kv_put("noise", &noise(round, 20_000)).unwrap();
        db.commit().unwrap();
        world.store.checkpoint().unwrap();
        world.keep();
        most = most.max(world.store.stats().archive_bytes);
    }
    assert!(most < 4_000_000, "{most}");
}

#[test]
fn an_archive_over_its_size_cap_forgets_the_oldest_history_first() {
    let world = World::new(ArchiveOptions::default().max_bytes(300_000));
    let mut last = None;
    for i in 0..300 {
        world.pass(MINUTE);
        last = Some(world.put(1, &format!("{i:03}").repeat(3_000)));
        put_noise(&world.store, i, 4_000).unwrap();
        world.store.checkpoint().unwrap();
        world.keep();
    }
    let stats = world.store.stats();
    assert!(stats.archive_bytes < 400_000, "{}", stats.archive_bytes);
    assert!(stats.archive_horizon_ms > 1_000_000_000_000 + 100 * MINUTE);
    let last = world.at(1, &last.unwrap()).unwrap().unwrap();
    assert_eq!(last, "299".repeat(3_000));
}

#[test]
fn a_short_retention_does_not_pile_up_runs() {
    let world = World::new(ArchiveOptions::default().retention(Duration::from_mins(8)));
    put_noise(&world.store, 1, 1_000_000).unwrap();
    world.store.checkpoint().unwrap();
    for i in 0..300 {
        world.pass(MINUTE + 5000);
        world.put(2, &format!("value {i}"));
        world.store.checkpoint().unwrap();
        world.keep();
    }
    assert!(world.runs().len() < 50, "{} runs", world.runs().len());
}
