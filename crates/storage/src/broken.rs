//! Deliberately broken variants of the storage engine, which test its tests: a checker that has never caught anything
//! proves nothing. Each guarantee has variants that break it in the code that provides it, and a test must catch each
//! of them. Faults of a disk or a clock are not here: tests inject those with a faulty disk or clock.
//!
//! Contract: without the feature `broken`, which only tests enable, `broken` is the constant false and the product is
//! unchanged. With the feature, nothing is broken until a test selects a variant: for its thread with `Broken::begin`,
//! or for a whole process with the environment variable [`VARIABLE`].

/// The environment variable that names a variant.
pub const VARIABLE: &str = "ABIDE_BROKEN_STORAGE";

/// Declares the broken variants of a crate, by part: an enum `Variant`, a function `broken` that product code calls,
/// and a guard `Broken` with which a test breaks its own thread. The crate has a feature `broken`. The first argument
/// is the environment variable that breaks a whole process, for tests whose nodes have their own threads.
#[doc(hidden)]
#[macro_export]
macro_rules! broken_variants {
    ($variable:expr; $($part:ident { $($(#[$doc:meta])+ $name:ident,)+ })+) => {
        /// A broken variant. The first sentence says how it is broken, the second which guarantee is violated.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Variant {
            $($($(#[$doc])+ $name,)+)+
        }

        impl Variant {
            /// All variants.
            pub const ALL: &[Self] = &[$($(Self::$name,)+)+];

            /// The variants of a part, by its name.
            pub fn of(part: &str) -> &'static [Self] {
                match part {
                    $(stringify!($part) => &[$(Self::$name,)+],)+
                    _ => &[],
                }
            }
        }

        /// Returns whether this variant is active.
        #[cfg(not(feature = "broken"))]
        pub(crate) const fn broken(_: Variant) -> bool {
            false
        }

        #[cfg(feature = "broken")]
        fn of_environment() -> Option<Variant> {
            let name = std::env::var($variable).ok()?;
            let named = |variant: &&Variant| format!("{variant:?}") == name;
            Variant::ALL.iter().find(named).copied()
        }

        #[cfg(feature = "broken")]
        pub(crate) use switch::broken;
        #[cfg(feature = "broken")]
        pub use switch::Broken;

        #[cfg(feature = "broken")]
        mod switch {
            use super::Variant;
            use std::{cell::Cell, sync::OnceLock};

            thread_local! {
                static OF_THREAD: Cell<Option<Variant>> = const { Cell::new(None) };
            }

            /// Returns whether this variant is active.
            pub(crate) fn broken(variant: Variant) -> bool {
                static OF_PROCESS: OnceLock<Option<Variant>> = OnceLock::new();
                let of_process = OF_PROCESS.get_or_init(super::of_environment);
                OF_THREAD.get() == Some(variant) || *of_process == Some(variant)
            }

            /// Breaks the product on this thread until the guard is dropped.
            #[derive(Debug)]
            pub struct Broken(());

            impl Broken {
                /// Breaks the product for this thread.
                #[must_use = "the product is broken until this is dropped"]
                pub fn begin(variant: Variant) -> Self {
                    OF_THREAD.set(Some(variant));
                    Self(())
                }
            }

            impl Drop for Broken {
                fn drop(&mut self) {
                    OF_THREAD.set(None);
                }
            }
        }
    };
}

broken_variants! {
    VARIABLE;
    log {
        /// A record's payload is not verified against its checksum. A node starts after every crash.
        PayloadUnchecked,
        /// A record is accepted at any position, so old ones of a recycled segment are. A node
        /// starts after every crash.
        OldRecordsTaken,
        /// The first records of a transaction count without the last. Unacknowledged writes are whole or absent.
        PartTaken,
        /// A failed savepoint is not rolled back. Unacknowledged writes are whole or absent.
        RollbackForgotten,
        /// An object that is open is opened again. One instance at a time.
        OpenedTwice,
        /// A page that a commit adds and SQLite has not written is not logged. The log alone says what a page holds.
        AddedPageUnlogged,
    }
    checkpoint {
        /// A checkpoint skips open objects. Acknowledged writes survive.
        RedoTooFar,
        /// A checkpoint does not require full images after it. A node starts after every crash.
        HorizonNotAdvanced,
        /// A checkpoint does not wait for the log before it writes files. A node starts after every crash.
        FileBeforeLog,
        /// Pages that were written during a checkpoint leave the overlay with the older ones in the file. Acknowledged writes
        /// survive.
        OverlayDroppedEarly,
        /// Segments are used again before the manifest says that they are not needed. A node starts after every crash.
        SegmentsFreedEarly,
    }
    archive {
        /// The log is reported as archived, but is not. Every commit of the retention can be restored.
        HistorySkipped,
        /// History is dropped after a single error of the archive. Every commit of the retention can be restored.
        HistoryGivenUpEarly,
        /// A merge leaves out each object's newest commit. Every commit of the retention can be restored.
        MergeDropsNewest,
        /// Runs are removed before the manifest lists the one that replaces them. Every commit of the retention can be restored.
        RunsRemovedEarly,
        /// A fold includes history that has not expired. Every commit of the retention can be restored.
        FoldEarly,
        /// A snapshot of a file that is ahead of the history is used as the earlier state. A restore gives exactly what
        /// was.
        SnapshotAhead,
        /// A restore is acknowledged before it is durable. A restore is one commit, wholly there or absent.
        RestoreNotAwaited,
        /// A restore is two commits. A restore is one commit, wholly there or absent.
        RestoreInParts,
    }
    repair {
        /// A repaired object stays quarantined. A repair ends a quarantine.
        QuarantineKept,
    }
    bounds {
        /// A statement is not held to the limit of its object. An object stores no more than it may.
        ObjectBoundIgnored,
        /// A commit is not held to the limit of all objects. All objects together store no more than they may.
        StoreBoundIgnored,
        /// Changes of commits are not counted. All objects together store no more than they may.
        GrowthNotCounted,
    }
    memory {
        /// The budget is never used up. Work is refused when there is no memory for it.
        BudgetIgnored,
    }
    alarms {
        /// Recovery ignores the alarms in the log. Alarms go off.
        AlarmForgottenByRecovery,
        /// A checkpoint does not save the alarm index. Alarms go off.
        AlarmForgottenByCheckpoint,
        /// A taken alarm is not put back for its next time. Alarms go off.
        AlarmNotPutBack,
        /// An attempt that its process did not survive uses up a retry. Alarms go off.
        CrashCountsForAll,
        /// Waits follow a clock that is set back. A wait is no longer for that.
        ClockSetBackIgnored,
        /// Recovery does not look for a clock that was set back. A wait is no longer for that.
        ClockSetBackForgotten,
        /// A step of the clock is not saved before its time is used. A wait is no longer for that.
        ClockSetBackNotSaved,
        /// Steps of the clock before an alarm was set count for it. A wait is not shortened by them.
        ClockSetBackBefore,
        /// The alarm of an object that is due last goes off first. Each alarm goes off at its time.
        LastAlarmFirst,
        /// An object stops being a suspect when another of its alarms goes off. What may crash the process runs in
        /// isolation.
        SuspectClearedByAnother,
        /// An object that is to be restored at once is not due in the alarm index. Alarms go off.
        RestoreWaitsForEvent,
        /// Alarms of dormant objects are due in the alarm index. A dormant object does nothing unasked.
        DormantAlarmFires,
    }
}

#[cfg(all(test, feature = "broken"))]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_broken_on_its_thread_while_it_is_set() {
        let variant = Variant::HorizonNotAdvanced;
        {
            let _broken = Broken::begin(variant);
            assert_eq!(all_broken(), [variant]);
            std::thread::spawn(|| assert_eq!(all_broken(), []))
                .join()
                .unwrap();
        }
        assert_eq!(all_broken(), []);
    }

    fn all_broken() -> Vec<Variant> {
        let all = Variant::ALL.iter().copied();
        all.filter(|variant| broken(*variant)).collect()
    }
}
