//! After a restore of the directory, each object is on a new timeline.

use abide_storage::{AlarmRow, ObjectKey, StoredCause, TimelineRow};

use super::life::Life;
use crate::common::flush;

fn timeline(life: &Life, key: ObjectKey) -> TimelineRow {
    life.store.open_object(key).unwrap().timeline().unwrap()
}

/// A copy is restored, and opened in place of the present directory.
fn restore(life: &mut Life) {
    let copy = life.copy();
    life.pass(5_000);
    let disk = copy.restore(life);
    life.open(&disk);
}

#[test]
fn s23_each_object_is_on_a_new_timeline_also_without_being_opened() {
    let mut life = Life::small();
    let (first, second) = (life.key("First", 0), life.key("First", 1));
    let before = [first, second].map(|key| timeline(&life, key));
    assert!(
        before
            .iter()
            .all(|row| row.cause == StoredCause::Created && row.untold.is_none())
    );
    restore(&mut life);
    let restored_at = life.now();
    let rows = [first, second].map(|key| timeline(&life, key));
    for (row, before) in rows.iter().zip(before) {
        assert!(
            row.id > before.id && row.untold.is_some() && !row.dormant,
            "{row:?}"
        );
        assert_eq!(row.since, Some(restored_at));
    }
    // It is the same one at the next start, and in the next directory for one that was not opened since.
    life.reopen();
    assert_eq!([first, second].map(|key| timeline(&life, key)), rows);
    life.tell(first);
    let told = timeline(&life, first);
    assert_eq!(
        told,
        TimelineRow {
            untold: None,
            ..rows[0]
        }
    );
    life.reopen();
    assert_eq!(timeline(&life, first), told);
    restore(&mut life);
    for (key, before) in [(first, rows[0]), (second, rows[1])] {
        let row = timeline(&life, key);
        assert!(row.id > before.id && row.untold.is_some(), "{row:?}");
    }
}

#[test]
fn s23_the_restored_state_has_a_bookmark_and_the_lost_one_has_none() {
    let mut life = Life::small();
    let key = life.key("First", 0);
    restore(&mut life);
    let StoredCause::Restored { from, to } = timeline(&life, key).cause else {
        panic!("it was restored");
    };
    life.tell(key);
    life.put(key, "later");
    assert_eq!(life.at(&to, key).unwrap().as_deref(), Some("First 0"));
    life.at(&from, key).unwrap_err();
    life.store.restore(key, &to).unwrap();
    assert_eq!(life.value(key).as_deref(), Some("First 0"));
    let row = timeline(&life, key);
    assert!(
        matches!(row.cause, StoredCause::Restored { to: of, .. } if of == to),
        "{row:?}"
    );
}

#[test]
fn s23_an_object_created_after_a_restore_is_on_its_first_timeline() {
    let mut life = Life::small();
    restore(&mut life);
    let (new, again) = (life.key("First", 4), life.key("First", 3));
    for key in [new, again] {
        life.put(key, "new");
        let row = timeline(&life, key);
        assert_eq!((row.cause, row.untold), (StoredCause::Created, None));
    }
    // One that is deleted and begins again, too.
    let old = life.key("First", 0);
    life.delete(old);
    life.put(old, "again");
    assert_eq!(timeline(&life, old).cause, StoredCause::Created);
}

#[test]
fn s23_a_fork_of_an_older_state_is_not_taken_for_restored() {
    let mut life = Life::small();
    let key = life.key("First", 0);
    let bookmark = life.store.bookmark(key).unwrap();
    restore(&mut life);
    let to = life.key("First", 4);
    life.store.fork(key, &bookmark, to, Some("copy")).unwrap();
    flush(&life.store);
    let row = timeline(&life, to);
    assert!(
        matches!(row.cause, StoredCause::Forked { .. }) && row.dormant,
        "{row:?}"
    );
    // Until the directory is restored again.
    restore(&mut life);
    let again = timeline(&life, to);
    assert!(
        matches!(again.cause, StoredCause::Restored { .. }),
        "{again:?}"
    );
    assert!(again.dormant && again.id > row.id, "{again:?}");
}

#[test]
fn s23_positions_of_timelines_are_above_all_counts_of_lost_commits() {
    let mut life = Life::small();
    let key = life.key("First", 0);
    let copy = life.copy();
    life.reopen();
    for _ in 0..50 {
        life.put(key, "lost");
    }
    let lost = life.store.appended().get();
    let disk = copy.restore(&life);
    life.past.clear();
    life.open(&disk);
    assert!(timeline(&life, key).id.position() > lost);
    assert!(life.store.appended().get() > lost);
}

#[test]
fn s23_a_second_restore_of_one_copy_has_other_timelines() {
    let mut life = Life::small();
    let key = life.key("First", 0);
    let copy = life.copy();
    let mut newest = None;
    for _ in 0..3 {
        life.pass(5_000);
        let disk = copy.restore(&life);
        life.open(&disk);
        let id = Some(timeline(&life, key).id);
        assert!(id > newest, "{id:?} {newest:?}");
        newest = id;
    }
}

#[test]
fn s23_an_alarm_that_is_due_is_due_in_the_restored_directory() {
    let mut life = Life::small();
    let keys = [life.key("First", 0), life.key("Second", 4)];
    for key in keys {
        life.set_alarm(key, Some(&AlarmRow::at(5)));
    }
    restore(&mut life);
    let alarms = life.store.alarms();
    alarms.divide(1, |_| Some(0));
    let mut due: Vec<_> = std::iter::from_fn(|| alarms.take_due(0, 10))
        .map(|due| due.key)
        .collect();
    due.sort();
    assert_eq!(due, keys);
    for key in keys {
        let db = life.store.open_object(key).unwrap();
        assert_eq!(life.store.alarms().get(key), db.alarm_entry().unwrap());
    }
}
