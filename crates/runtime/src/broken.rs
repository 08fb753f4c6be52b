//! Deliberately broken variants of the runtime, which test its tests: each guarantee has variants that break it in the
//! code that provides it, and a test must catch each of them.
//!
//! Contract: as for the [variants of the storage engine](abide_storage::broken). Without the feature `broken` the
//! product is unchanged.

/// The environment variable that names a variant.
pub const VARIABLE: &str = "ABIDE_BROKEN_RUNTIME";

abide_storage::broken_variants! {
    VARIABLE;
    gates {
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
    }
    objects {
        /// What a poll wrote before it panicked is kept. Unacknowledged writes are whole or absent.
        PanicCommits,
        /// Each event gets its own instance. One instance at a time.
        InstanceEach,
        /// A reset object continues to run next to its successor. One instance at a time.
        ResetLeavesOld,
        /// A call that may have run is reported not to have. Unacknowledged writes are whole or absent.
        MaybeRanSaysNever,
        /// An object is not told of a new timeline. Its code is told once, before anything else.
        TimelineUntold,
        /// A fresh activation keeps the alarms that were inherited. A copy does not do its original's work.
        FreshKeepsWork,
        /// The results of calls are not remembered under their idempotency keys. A call is applied once.
        KeyForgotten,
    }
    limits {
        /// Created objects are not counted. A client creates no more objects than it may.
        CreationUncounted,
    }
    sockets {
        /// A frame overtakes the one before it. Sockets keep their order.
        FrameOvertakes,
        /// An object that leaves memory forgets its sockets. Sockets keep their order.
        SocketsForgotten,
        /// A message that waits for its object overtakes those before it. Sockets keep their order.
        MessageOvertakes,
        /// Messages that wait for an object that is reset are dropped. Sockets keep their order.
        MessagesDropped,
    }
    alarms {
        /// The alarm's row is removed when its handler begins. Alarms go off.
        AlarmDeletedFirst,
        /// An alarm whose handler failed is not tried again. Alarms go off.
        AlarmDeletedOnError,
    }
}
