//! Deliberately broken variants of the product, which test the tests: a checker that has never caught anything proves
//! nothing. Each promise has variants that break it in the one place where it is kept, and the simulation must catch
//! each of them.
//!
//! Contract: without the feature `broken`, which nothing but tests turns on, [`broken`] is the constant false and not one
//! instruction of the product is different. With it nothing is broken either until [`Broken::begin`] says what, for the
//! thread that says it.

macro_rules! variants {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// What is broken. The first sentence says how, the second which promise is not kept.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Variant {
            $($(#[$doc])+ $name,)+
        }

        impl Variant {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

variants! {
    /// The log says that a group is durable before it is written. Nothing leaves before it is durable.
    AckBeforeSync,
    /// A group is written and not synced. Acknowledged writes survive.
    GroupUnsynced,
    /// A sync of the log that failed is taken for one that did not. Acknowledged writes survive.
    FailedSyncIgnored,
    /// A sync of the log that failed is tried again, and its second answer is believed. A node starts after every crash.
    FailedSyncRetried,
    /// A segment's header is not synced before its first record. A node starts after every crash.
    HeaderUnsynced,
    /// What recovery has read is not synced before more is built on it. A node starts after every crash.
    RecoveredUnsynced,
    /// A record's payload is not compared with its checksum. A node starts after every crash.
    PayloadUnchecked,
    /// A record is taken wherever it stands, so those that a recycled segment held before are. A node
    /// starts after every crash.
    OldRecordsTaken,
    /// The first records of a transaction count without the last. Unacknowledged writes are whole or absent.
    PartTaken,
    /// A savepoint that fails is not undone. Unacknowledged writes are whole or absent.
    RollbackForgotten,
    /// A checkpoint passes over objects that are open. Acknowledged writes survive.
    RedoTooFar,
    /// A checkpoint does not have the first images behind it written in full. A node starts after every crash.
    FloorNotRaised,
    /// A checkpoint does not wait for the log before it writes files. A node starts after every crash.
    FileBeforeLog,
    /// The manifest is published before the objects' files are synced. Acknowledged writes survive.
    FilesUnsynced,
    /// Directories are not synced after files were made in them. Acknowledged writes survive.
    NamesUnsynced,
    /// The manifest is renamed before it is synced. A node starts after every crash.
    ManifestUnsynced,
    /// Pages that were written during a checkpoint leave the overlay with the older ones in the file. Acknowledged writes
    /// survive.
    OverlayDroppedEarly,
    /// Segments are used again before the manifest says that they are not needed. A node starts after every crash.
    SegmentsFreedEarly,
    /// The log is said to be archived, and is not. Every commit of the retention can be restored.
    HistorySkipped,
    /// A run of the archive is not synced before the manifest lists it. Every commit of the retention can be restored.
    RunUnsynced,
    /// A merge leaves out each object's newest commit. Every commit of the retention can be restored.
    MergeDropsNewest,
    /// Runs are removed before the manifest lists the one that replaces them. Every commit of the retention can be restored.
    RunsRemovedEarly,
    /// A fold takes what has not expired. Every commit of the retention can be restored.
    FoldEarly,
    /// A snapshot of a file that is ahead of the history passes for the state before. A restore gives exactly what was.
    SnapshotAhead,
    /// A restore is acknowledged before it is durable. A restore is one commit, wholly there or absent.
    RestoreNotAwaited,
    /// A restore is two commits. A restore is one commit, wholly there or absent.
    RestoreInParts,
    /// Recovery takes no notice of the alarms in the log. Alarms go off.
    AlarmForgottenByRecovery,
    /// A checkpoint does not save the index of alarms. Alarms go off.
    AlarmForgottenByCheckpoint,
    /// An alarm that was taken is not put back for its next time. Alarms go off.
    AlarmNotPutBack,
    /// Alarms are taken a second before they are due. Alarms do not go off early.
    AlarmEarly,
    /// The runtime does not see that the wall clock was set back. Alarms do not go off early.
    ClockNeverBack,
    /// The alarm's row is removed when its handler begins. Alarms go off.
    AlarmDeletedFirst,
    /// An alarm whose handler failed is not tried again. Alarms go off.
    AlarmDeletedOnError,

    /// Answers do not wait at the output gate. Nothing leaves before it is durable.
    AnswersNotHeld,
    /// Calls of other objects do not wait at the output gate. Nothing leaves before it is durable.
    CallsNotHeld,
    /// WebSocket frames do not wait at the output gate. Nothing leaves before it is durable.
    FramesNotHeld,
    /// Requests to other servers do not wait at the output gate. Nothing leaves before it is durable.
    RequestsNotHeld,
    /// An object that was reset forgets that its newest writes are not durable. Nothing leaves before it is durable.
    UnconfirmedForgotten,
    /// The input gate is always open. A history is linearizable.
    InputGateOpen,
    /// A poll's writes become several transactions of the log. Unacknowledged writes are whole or absent.
    PollSplit,
    /// What a poll wrote before it panicked is kept. Unacknowledged writes are whole or absent.
    PanicCommits,
    /// Each event gets an instance of its own. One instance at a time.
    InstanceEach,
    /// An object that was reset goes on beside its successor. One instance at a time.
    ResetLeavesOld,
    /// A call that may have run is said not to have. Unacknowledged writes are whole or absent.
    MaybeRanSaysNever,
    /// The results of calls are not remembered under their idempotency keys. A call is applied once.
    KeyForgotten,
    /// A frame overtakes the one before it. Sockets keep their order.
    FrameOvertakes,
    /// A frame is sent twice. Sockets keep their order.
    FrameDoubled,
    /// An object that leaves memory forgets its sockets. Sockets keep their order.
    SocketsForgotten,
    /// A message that waits for its object overtakes those before it. Sockets keep their order.
    MessageOvertakes,
    /// Messages that wait for an object that is reset are dropped. Sockets keep their order.
    MessagesDropped,

    /// Messages are sent before it is durable that they are on their way. Nothing leaves before it is durable.
    SendBeforeDurable,
    /// A message that was refused counts as sent. An outbox loses no message.
    RefusedMeansSent,
    /// What was on its way when the process ended is left so. An outbox loses no message.
    ClaimForgotten,
    /// A message that is given up is removed. An outbox loses no message.
    DeadLetterLost,
    /// Messages do not wait for those before them with their ordering key. An outbox keeps the order.
    OrderIgnored,
    /// Messages do not wait for a dead letter with their ordering key. An outbox keeps the order.
    DeadLetterPassed,
    /// A retry has an idempotency key of its own. An outbox repeats an effect only when an answer was lost.
    NewKeyOnRetry,
    /// A message that was sent is sent again. An outbox repeats an effect only when an answer was lost.
    SentTwice,
    /// A retry does not wait. An outbox retries in its time.
    RetryAtOnce,
    /// A fan-out leaves out the last message of each batch. A fan-out makes each message once.
    FanOutSkips,
    /// A fan-out makes its messages twice. A fan-out makes each message once.
    FanOutRepeats,
}

#[cfg(feature = "broken")]
pub use switch::{Broken, broken, wall_clock};

/// True if this is to be broken.
#[cfg(not(feature = "broken"))]
pub const fn broken(_: Variant) -> bool {
    false
}

/// The wall clock as the runtime sees it.
#[cfg(not(feature = "broken"))]
pub const fn wall_clock(unix_millis: u64) -> u64 {
    unix_millis
}

#[cfg(feature = "broken")]
mod switch {
    use super::Variant;
    use std::cell::Cell;

    thread_local! {
        static VARIANT: Cell<Option<Variant>> = const { Cell::new(None) };
        static LATEST: Cell<u64> = const { Cell::new(0) };
    }

    /// True if this is to be broken.
    pub fn broken(variant: Variant) -> bool {
        VARIANT.get() == Some(variant)
    }

    /// The wall clock as the runtime sees it.
    pub fn wall_clock(unix_millis: u64) -> u64 {
        if !broken(Variant::ClockNeverBack) {
            return unix_millis;
        }
        LATEST.set(LATEST.get().max(unix_millis));
        LATEST.get()
    }

    /// While it lives the product is broken, on this thread.
    #[derive(Debug)]
    pub struct Broken(());

    impl Broken {
        /// Breaks the product for this thread.
        #[must_use = "the product is broken until this is dropped"]
        pub fn begin(variant: Variant) -> Self {
            LATEST.set(0);
            VARIANT.set(Some(variant));
            Self(())
        }
    }

    impl Drop for Broken {
        fn drop(&mut self) {
            VARIANT.set(None);
        }
    }
}

#[cfg(all(test, feature = "broken"))]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_broken_on_the_thread_that_says_so_and_as_long_as_it_says_so() {
        let variant = Variant::GroupUnsynced;
        {
            let _broken = Broken::begin(variant);
            assert!(broken(variant) && !broken(Variant::AckBeforeSync));
            std::thread::spawn(move || assert!(!broken(variant)))
                .join()
                .unwrap();
        }
        assert!(Variant::ALL.iter().all(|variant| !broken(*variant)));
    }
}
