//! A part of the history is missing: a run was damaged before it was copied.

use std::path::Path;

use abide_storage::{ErrorKind, Repair};

use super::life::Life;
use crate::common::{DIR, flush};

#[test]
fn s23_an_object_without_a_complete_state_is_quarantined() {
    let mut life = Life::small();
    let objects @ [gone, written, again] = [0, 1, 2].map(|id| life.key("Third", id));
    life.put(again, "first life");
    life.checkpoint();
    life.pass(1_000);
    for key in objects {
        life.put(key, "in the damaged run");
    }
    let within = life.now();
    life.delete(again);
    life.checkpoint();
    let dir = Path::new(DIR).join("archive");
    let mut runs = abide_storage::Disk::list(&life.disk, &dir).unwrap();
    runs.sort();
    let damaged = dir.join(runs.last().unwrap());
    life.disk.flip(&damaged, 100);
    life.pass(1_000);
    life.put(gone, "after it");
    life.put(again, "second life");
    life.checkpoint();
    let times = life.now();
    life.pass(1_000);
    // Their files cannot give the archive another state.
    for key in [gone, again] {
        let file = life.store.object_path(key).unwrap();
        life.disk.flip(&file, 0);
    }
    // A merge finds the damage.
    for number in 0..10 {
        let other = life.key("First", 0);
        life.put(other, &format!("{number}"));
        life.checkpoint();
    }
    life.store.run_maintenance().unwrap();
    life.pass(5);
    life.put(written, "with a new snapshot");
    let copy = life.copy();
    let (disk, made) = copy.restore_at(&life, None).unwrap();
    life.open(&disk);
    let keys: Vec<_> = made.quarantined.iter().map(|of| of.key).collect();
    assert_eq!(keys, [gone], "{:?}", made.quarantined);
    assert_eq!(life.store.quarantined(), made.quarantined);
    assert_eq!(life.value(written).as_deref(), Some("with a new snapshot"));
    assert_eq!(life.value(again).as_deref(), Some("second life"));
    let refused = life.store.open_object(gone).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged);
    let told =
        "its newest state is not complete in the archive that the data directory was restored from";
    assert!(refused.to_string().contains(told), "{refused}");
    life.store.repair(gone, Repair::Anew).unwrap();
    flush(&life.store);
    assert_eq!(life.value(gone), None);
    // Nor is a later or an earlier state taken for that at a time of which a part is missing.
    for (at, lacking) in [(times, &objects[..2]), (within, &objects[..])] {
        let (_, made) = copy.restore_at(&life, Some(at)).unwrap();
        let keys: Vec<_> = made.quarantined.iter().map(|of| of.key).collect();
        assert_eq!(keys, lacking, "{:?}", made.quarantined);
    }
}
