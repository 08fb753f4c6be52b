//! Deliberately broken variants of what components share, which test their tests.
//!
//! Contract: the same as of [those of the runtime](abide::broken). Without the feature `broken` the code is unchanged.

/// The environment variable that names a variant.
pub const VARIABLE: &str = "ABIDE_BROKEN_WORKER";

abide::broken_variants! {
    VARIABLE;
    worker {
        /// A dormant object works. A dormant object does nothing unasked.
        DormantWorks,
        /// No alarm guards the work. Work continues after a crash.
        GuardUnset,
        /// A task that runs does not notice new work. Work begins when it is due.
        KickUnheard,
        /// Each kick starts a task. At most one task runs.
        TwoTasks,
        /// Dropped attempts are not settled. Work continues after its task was dropped.
        CutOffUnnoticed,
        /// A dropped task counts as running. Work continues after its task was dropped.
        DroppedRuns,
        /// Attempts begin before their claim is on disk. An attempt that was begun counts.
        BegunBeforeDurable,
        /// A result that could not be written is dropped. Results are written.
        ResultsDropped,
        /// A task that ends does not set the alarm. Work begins when it is due.
        RestUnarmed,
    }
}
