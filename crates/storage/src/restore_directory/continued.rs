//! How a restored directory continues the lost one: above all of its positions, also above those of commits that are not in
//! the archive, and which others may have seen. If the same copy is restored twice, the second is above the first.

use crate::manifest::{ArchiveState, ClockReading, Manifest, Runs};
use crate::timeline::Mark;

/// More bytes of log than a directory writes after its last copy. A program may derive numbers from positions
/// ([`TimelineId::position`](crate::TimelineId::position)), so these must rise, and not the generation alone. The first
/// part does not change the numbers of commits, which count 64 bytes and wrap at 2³²; the second leaves room for those that
/// a restore adds.
pub(super) const LOST_BYTES: u64 = (1 << 42) + (1 << 20);

/// At least this many generations are left out: more starts than a directory has after its last copy.
const LOST_EPOCHS: u32 = 64;

/// A generation is not below the time in units of this many milliseconds, unless starts follow each other faster than
/// that.
const EPOCH_MILLIS: u64 = 4096;

/// The generation of a restore.
fn generation(old: &Manifest, now: u64) -> u32 {
    let of_time = (now / EPOCH_MILLIS).min(u64::from(u32::MAX / 2)) as u32;
    let raised = old.epoch.saturating_add(old.raise.generations);
    of_time.max(raised.saturating_add(LOST_EPOCHS))
}

/// The manifest of the restored directory, without what the restore itself adds.
pub(super) fn manifest(old: &Manifest, now: u64) -> Manifest {
    let epoch = generation(old, now);
    // From here on, positions are above all timelines.
    let redo = old.redo + old.raise.bytes + LOST_BYTES;
    Manifest {
        epoch,
        redo,
        namespaces: old.namespaces.clone(),
        alarms: Runs {
            newest: old.alarms.newest,
            list: Vec::new(),
            unsaved: true,
        },
        clock: ClockReading {
            position: redo,
            ..old.clock
        },
        archive: ArchiveState {
            archived: Some(redo),
            // They are in the runs, or their commits are lost.
            replacements: Vec::new(),
            ..old.archive.clone()
        },
        restored: Some(Mark {
            generation: epoch,
            position: redo,
            unix_millis: now,
        }),
        ..Manifest::empty(old.segment_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::{CommitNo, Generation, Lsn, Position};

    fn copy(epoch: u32, redo: u64) -> Manifest {
        Manifest {
            epoch,
            redo,
            ..Manifest::empty(1 << 20)
        }
    }

    #[test]
    fn commit_numbers_rise_a_little_over_a_restore() {
        for redo in [0, 64, 1 << 30, 1 << 38, (1 << 40) + 77] {
            let old = CommitNo::first(Lsn(redo));
            let new = CommitNo::first(Lsn(manifest(&copy(1, redo), 0).redo));
            assert_eq!(new.0.wrapping_sub(old.0), 1 << 14);
        }
    }

    #[test]
    fn a_restore_continues_above_raised_timelines() {
        let at = |generation, lsn| Position::at(Generation(generation), Lsn(lsn));
        let mut old = copy(3, 1 << 20);
        let above = at(77, (1 << 44) + 123);
        let raise = old.raise.above(above, at(3, 1 << 20));
        old.raise = raise.unwrap_or_default();
        let new = manifest(&old, 0);
        assert!(new.raise.is_none() && new.epoch > 77 && new.redo > (1 << 44) + 123);
        let number = |redo| CommitNo::first(Lsn(redo)).0;
        assert_eq!(number(new.redo).wrapping_sub(number(1 << 20)), 1 << 14);
    }

    #[test]
    fn each_restore_has_a_higher_generation() {
        let day = 24 * 3_600_000;
        let first = manifest(&copy(7, 0), 20_000 * day).epoch;
        assert!(first > 7 + LOST_EPOCHS);
        let again = manifest(&copy(7, 0), 20_000 * day + EPOCH_MILLIS).epoch;
        assert_eq!(again, first + 1);
        let of_restored = manifest(&copy(first + 3, 0), 20_000 * day + 1).epoch;
        assert_eq!(of_restored, first + 3 + LOST_EPOCHS);
        assert!(manifest(&copy(7, 0), 0).epoch > 7);
        assert!(manifest(&copy(7, 0), u64::MAX).epoch < u32::MAX);
    }
}
