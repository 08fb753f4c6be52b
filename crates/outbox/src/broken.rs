//! Deliberately broken variants of the outbox, which test its tests. Each guarantee has variants that violate it in the
//! one place that implements it, and a test must catch each.
//!
//! Contract: the same as of [those of the runtime](abide::broken). Without the feature `broken` the outbox's code is
//! unchanged. A variant applies to a thread, in the simulation, or to a whole process, in which a test must fail.

/// The environment variable that names a variant.
pub const VARIABLE: &str = "ABIDE_BROKEN_OUTBOX";

abide::broken_variants! {
    VARIABLE;
    outbox {
        /// A message that was refused counts as sent. An outbox loses no message.
        RefusedMeansSent,
        /// A message in flight at a crash is not retried. An outbox loses no message.
        ClaimForgotten,
        /// A message that is given up is removed. An outbox loses no message.
        DeadLetterLost,
        /// Messages do not wait for those before them with their ordering key. An outbox keeps the order.
        OrderIgnored,
        /// Messages do not wait for a dead letter with their ordering key. An outbox keeps the order.
        DeadLetterPassed,
        /// A retry has its own idempotency key. An outbox repeats an effect only when an answer was lost.
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
    outbox_turns {
        /// A copy delivers the messages of its original. A copy does not do its original's work.
        CopyDelivers,
        /// A message in flight at a crash is given up when its attempts run out. A crash makes no dead letters of
        /// innocents.
        SuspectsBuried,
        /// A message in flight at a crash is attempted with others until the end. A message that crashes the process is
        /// found.
        SuspectsTogether,
        /// Events of a transaction that is rolled back are counted. Metrics count what happened.
        CountedThoughUndone,
        /// Throttling counts as an attempt. A receiver that is only busy makes no dead letters.
        ThrottledCounts,
        /// Mutation: retries wait until nothing else is due. Promise: each message waits only for its turn.
        RepetitionsLast,
        /// Mutation: lower priorities wait until nothing else is due. Promise: each message waits only for its turn.
        PriorityStrict,
        /// Events that a message's row expresses are not stored before one that it cannot express. A history is
        /// complete.
        HistoryCut,
        /// A destination's row records fewer used tokens than were used. A rate is kept across a crash.
        BucketBehind,
        /// What an undone transaction wrote of a destination counts as written. An outbox loses no message.
        UndoneTrusted,
        /// A message that enters a line is not added to the cache. An outbox loses no message.
        EntryUnnoticed,
        /// Cached messages are not checked against the rows. A canceled message is not sent.
        ReadyTrusted,
        /// Mutation: destinations without room at a crash wait as if they were to be retried. Promise: each message
        /// waits only for its turn.
        ParkedLeft,
        /// Operations are polled although their destination's circuit is open. A paused destination gets no requests.
        PollsPastCircuit,
        /// A call that the receiver remembers as failed is retried with the same key. A retryable call has its effect.
        RememberedRepeated,
        /// An edit that says the same gives the message a new key. An outbox repeats an effect only when an answer was lost.
        SameEditRenews,
        /// A message that must not be given up is given up. A message that is never given up stays queued.
        NeverGivenUp,
        /// Mutation: destinations that have not responded may use the outbox's whole concurrency. Promise: no message
        /// waits for silent receivers.
        SilentTakeAll,
        /// A callback that fails is not called again. An object learns of each end of a message.
        CallbackForgotten,
        /// Mutation: turns start again when the object is activated. Promise: each message waits only for its turn.
        TurnsRepeated,
    }
    units {
        /// Mutation: a receiver that throttles occasionally is sent less and less. Promise: random throttling slows
        /// no receiver down.
        RandomSlows,
    }
    service {
        /// A client may enqueue messages of any kind. Clients cannot write messages that are reserved to the program.
        ClosedKindTaken,
        /// A client may edit dead letters of any kind. Clients cannot write messages that are reserved to the program.
        ClosedKindEdited,
        /// A JSON RPC call may enqueue messages of any kind. Clients cannot write messages that are reserved to the
        /// program.
        ClosedKindCalled,
        /// A message is shown with the values of secret headers. Only the receiver sees secrets.
        SecretHeaderShown,
    }
}

/// Tests the tests: unit tests must catch the variants that other tests cannot see.
#[cfg(all(test, feature = "broken"))]
mod tests {
    use super::{VARIABLE, Variant};

    fn caught_by(variant: Variant) -> &'static str {
        match variant {
            Variant::RandomSlows => {
                "throttle::tests::a_destination_that_throttles_at_random_is_not_slowed_down"
            }
            _ => panic!("{variant:?} is of another part"),
        }
    }

    #[test]
    fn every_broken_variant_is_caught() {
        abide_harness::hunt(VARIABLE, &[], Variant::of("units"), caught_by);
    }
}
