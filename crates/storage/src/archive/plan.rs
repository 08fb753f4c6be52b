//! Plans compaction: a pure decision from the list of runs and the disk space.

use crate::limits::{
    ARCHIVE_FAN_IN, ARCHIVE_FOLD_SHARE, ARCHIVE_FULL_AFTER, ARCHIVE_SPAN_SHARE,
    MAX_SHARED_MERGE_BYTES,
};
use crate::manifest::{ArchiveState, RunMeta};
use crate::options::ArchiveOptions;
use std::ops::Range;

/// The disk space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes that can be written.
    pub(super) available: u64,
    /// Bytes that the archive leaves free: the size of a full log, but not more than the archive takes.
    pub(super) reserve: u64,
    /// A fold needs more than this.
    pub(super) too_little: u64,
    /// Consecutive steps that could not be written.
    pub(super) refused: u32,
}

impl Room {
    /// Returns whether the archive has no space: the disk reports it, or has rejected several steps in a row.
    fn is_full(&self) -> bool {
        let little = self.available < self.reserve;
        self.refused >= ARCHIVE_FULL_AFTER || (self.refused > 0 && little)
    }

    pub(super) fn is_short(&self) -> bool {
        self.is_full() || self.available < self.reserve
    }

    /// As if nothing were to be left free.
    pub(super) fn without_reserve(self) -> Self {
        Self {
            reserve: 0,
            refused: 0,
            ..self
        }
    }

    /// The free space that even a fold must leave: half of the reserve, since a fold frees space.
    pub(super) fn fold_reserve(&self) -> u64 {
        self.reserve / 2
    }

    fn fits_fold(&self, base_bytes: u64) -> bool {
        self.available > self.too_little
            && base_bytes.saturating_add(self.fold_reserve()) <= self.available
    }
}

/// A compaction, with the range of its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Compaction {
    Merge(Range<usize>),
    Fold(Range<usize>),
    Drop(Range<usize>),
}

/// How long history is kept.
pub(super) fn retention_millis(options: &ArchiveOptions) -> u64 {
    u64::try_from(options.retention.as_millis()).unwrap_or(u64::MAX)
}

/// Decides on the next compaction.
pub(super) fn plan(
    state: &ArchiveState,
    options: &ArchiveOptions,
    now: u64,
    room: &Room,
) -> Option<Compaction> {
    let retention = retention_millis(options);
    let horizon = now.saturating_sub(retention);
    let runs = &state.runs;
    let bases = runs.iter().take_while(|run| run.base).count();
    let bytes = |runs: &[RunMeta]| runs.iter().map(|run| run.bytes).sum::<u64>();
    let (base_bytes, history) = (bytes(&runs[..bases]), &runs[bases..]);
    let worth_it = |history: &[RunMeta]| {
        !history.is_empty() && bytes(history).saturating_mul(ARCHIVE_FOLD_SHARE) >= base_bytes
    };
    let fits = room.fits_fold(base_bytes);
    let expired = history
        .iter()
        .take_while(|run| run.last_millis <= horizon)
        .count();
    if fits && worth_it(&history[..expired]) {
        return Some(Compaction::Fold(0..bases + expired));
    }
    let half = bases + history.len().div_ceil(2);
    if state.bytes() > options.max_bytes || room.is_short() {
        if fits && worth_it(history) {
            return Some(Compaction::Fold(0..half));
        }
        // A step that could not be written needs space at any cost; a size limit only if there is much to gain.
        if !history.is_empty() && (room.is_full() || (worth_it(history) && !fits)) {
            return Some(Compaction::Drop(bases..half));
        }
    }
    let alike = find_alike(state, |window| {
        let (Some(first), Some(last)) = (window.first(), window.last()) else {
            return false;
        };
        let span = last.last_millis.saturating_sub(first.first_millis);
        // Runs that have expired leave together. A merge leaves as much free space as it takes.
        let short = span <= retention / ARCHIVE_SPAN_SHARE || last.last_millis <= horizon;
        short && bytes(window).saturating_mul(2) <= room.available
    });
    alike.map(Compaction::Merge)
}

/// Decides on the next merge of runs that stores share, of which history never expires. `is_left_out` says which are not merged now.
pub(super) fn plan_shared(
    state: &ArchiveState,
    available: u64,
    is_left_out: impl Fn(u64) -> bool,
) -> Option<Range<usize>> {
    let most = MAX_SHARED_MERGE_BYTES.min(available / 2);
    find_alike(state, |window| {
        let is_readable = window.iter().all(|run| !is_left_out(run.number));
        is_readable && window.iter().map(|run| run.bytes).sum::<u64>() <= most
    })
}

/// The oldest adjacent runs of a level that can be merged, among those that `may` permits.
fn find_alike(state: &ArchiveState, may: impl Fn(&[RunMeta]) -> bool) -> Option<Range<usize>> {
    let mut ranges = (0..state.runs.len()).map(|start| start..start + ARCHIVE_FAN_IN);
    ranges.find(|range| {
        let Some([first, rest @ ..]) = state.runs.get(range.clone()) else {
            return false;
        };
        let window = &state.runs[range.clone()];
        let is_mergeable = |run: &RunMeta| !run.base && !state.damaged.contains(&run.number);
        let are_alike = rest.iter().all(|run| run.level == first.level);
        are_alike && window.iter().all(is_mergeable) && may(window)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const HOUR: u64 = 3_600_000;

    fn options() -> ArchiveOptions {
        ArchiveOptions {
            retention: Duration::from_hours(80),
            max_bytes: 10_000,
            ..ArchiveOptions::default()
        }
    }

    /// Runs of one hour each: level, bytes.
    fn state(runs: &[(u32, u64)]) -> ArchiveState {
        let run = |(at, &(level, bytes)): (usize, &(u32, u64))| RunMeta {
            number: at as u64,
            level,
            base: level == 99,
            from: 0,
            to: 0,
            first_millis: at as u64 * HOUR,
            last_millis: (at as u64 + 1) * HOUR,
            objects: 1,
            bytes,
        };
        ArchiveState {
            archived: Some(0),
            runs: runs.iter().enumerate().map(run).collect(),
            ..ArchiveState::default()
        }
    }

    const ROOMY: Room = Room {
        available: u64::MAX,
        reserve: 0,
        too_little: 0,
        refused: 0,
    };

    fn plan(state: &ArchiveState, options: &ArchiveOptions, now: u64) -> Option<Compaction> {
        super::plan(state, options, now, &ROOMY)
    }

    #[test]
    fn eight_neighbours_of_a_level_are_merged_unless_they_span_too_much() {
        let mut runs = state(&[(1, 10); 3]);
        runs.runs.extend(state(&[(0, 10); 8]).runs);
        assert_eq!(plan(&runs, &options(), 0), Some(Compaction::Merge(3..11)));
        let seven = ArchiveState {
            archived: None,
            runs: runs.runs[..10].to_vec(),
            ..ArchiveState::default()
        };
        assert_eq!(plan(&seven, &options(), 0), None);
        let hour = ArchiveOptions {
            retention: Duration::from_hours(60),
            ..options()
        };
        assert_eq!(plan(&runs, &hour, 0), None);
    }

    #[test]
    fn expired_runs_are_folded_once_they_are_a_good_share_of_the_base() {
        let runs = state(&[(99, 100), (3, 10), (3, 10), (3, 10), (2, 10)]);
        let at = |hours| plan(&runs, &options(), hours * HOUR);
        assert_eq!(at(83), None);
        assert_eq!(at(84), Some(Compaction::Fold(0..4)));
        assert_eq!(at(900), Some(Compaction::Fold(0..5)));
    }

    #[test]
    fn an_oversized_archive_folds_the_older_half_but_not_bases_alone() {
        let over = state(&[(99, 6000), (1, 2000), (1, 2000), (0, 2000)]);
        assert_eq!(plan(&over, &options(), 0), Some(Compaction::Fold(0..3)));
        let bases = state(&[(99, 20_000), (0, 20)]);
        assert_eq!(plan(&bases, &options(), 0), None);
    }

    #[test]
    fn runs_are_merged_around_damaged_and_expired_ones() {
        let around = |damaged| {
            let mut runs = state(&[(0, 10); 20]);
            runs.damaged.insert(damaged);
            plan(&runs, &options(), 0)
        };
        assert_eq!(around(3), Some(Compaction::Merge(4..12)));
        assert_eq!(around(9), Some(Compaction::Merge(0..8)));
        let mut long = state(&[(99, 10_000)]);
        long.runs.extend(state(&[(2, 10); 9]).runs);
        let hour = ArchiveOptions {
            retention: Duration::from_hours(8),
            max_bytes: u64::MAX,
            ..options()
        };
        assert_eq!(plan(&long, &hour, 10 * HOUR), None);
        assert_eq!(plan(&long, &hour, 16 * HOUR), Some(Compaction::Merge(1..9)));
    }

    #[test]
    fn shared_runs_are_merged_whatever_their_age_unless_they_are_too_large() {
        let runs = state(&[(1, 10); 9]);
        assert_eq!(plan_shared(&runs, u64::MAX, |_| false), Some(0..8));
        assert_eq!(plan_shared(&runs, 160, |_| false), Some(0..8));
        assert_eq!(plan_shared(&runs, 159, |_| false), None);
        let mut runs = state(&[(3, MAX_SHARED_MERGE_BYTES / 7); 8]);
        assert_eq!(plan_shared(&runs, u64::MAX, |_| false), None);
        runs.runs.extend(state(&[(0, 10); 8]).runs);
        assert_eq!(plan_shared(&runs, u64::MAX, |_| false), Some(8..16));
        let runs = state(&[(1, 10); 20]);
        assert_eq!(plan_shared(&runs, u64::MAX, |run| run == 5), Some(6..14));
    }

    #[test]
    fn with_little_room_history_is_folded_and_dropped_as_a_last_resort() {
        let runs = state(&[(99, 100), (1, 200), (1, 200), (0, 200)]);
        let with = |room: Room| super::plan(&runs, &options(), 0, &room);
        let short = Room {
            available: 500,
            reserve: 700,
            ..ROOMY
        };
        assert_eq!(with(ROOMY), None);
        assert_eq!(with(short), Some(Compaction::Fold(0..3)));
        let tight = Room {
            available: 300,
            ..short
        };
        assert_eq!(with(tight), Some(Compaction::Drop(1..3)));
        let failed = Room {
            too_little: 500,
            ..short
        };
        assert_eq!(with(failed), Some(Compaction::Drop(1..3)));
    }

    #[test]
    fn a_merge_that_would_take_the_last_room_waits() {
        let runs = state(&[(0, 10); 8]);
        let with = |available| {
            let room = Room { available, ..ROOMY };
            super::plan(&runs, &options(), 0, &room)
        };
        assert_eq!(with(159), None);
        assert_eq!(with(160), Some(Compaction::Merge(0..8)));
    }
}
