//! Deliberately broken variants of the outbox, which test its tests: a test that has never caught anything proves nothing.
//! Each promise has variants that break it in the one place where it is kept, and a test must catch each.
//!
//! Contract: as of [those of the runtime](abide::broken). Without the feature `broken` not one instruction of the outbox is
//! different. It is broken for a thread, in the simulation, or for a whole process, in which a test must fail.

/// The environment variable that names a variant.
pub const VARIABLE: &str = "ABIDE_BROKEN_OUTBOX";

abide::broken_variants! {
    VARIABLE;
    outbox {
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
    outbox_turns {
        /// What was in flight at a crash is given up when its attempts run out. A crash makes no dead letters of innocents.
        SuspectsBuried,
        /// What was in flight at a crash is tried with others until the end. A message that ends the process is found.
        SuspectsTogether,
        /// What a transaction does is counted although it is undone. Metrics say what happened.
        CountedThoughUndone,
        /// Being throttled counts as an attempt. A receiver that is only busy makes no dead letters.
        ThrottledCounts,
        /// What was tried before waits until nothing else is due. Nobody waits longer than for its turn.
        RepetitionsLast,
        /// What is less urgent waits until nothing else is due. Nobody waits longer than for its turn.
        PriorityStrict,
        /// What a row tells of a message's history is not stored when something happens that it does not tell. A history is whole.
        HistoryCut,
        /// A destination's row holds fewer tokens as spent than were. A rate is kept across a crash.
        BucketBehind,
        /// What an undone transaction wrote of a destination counts as written. An outbox loses no message.
        UndoneTrusted,
        /// A message that enters a line is not added to what is known of it. An outbox loses no message.
        EntryUnnoticed,
        /// What memory tells of who waits is not compared with the rows. What was taken back is not sent.
        ReadyTrusted,
        /// Destinations for which there was no room at a crash wait as if they were to be tried again. Nobody waits longer than for its turn.
        ParkedLeft,
        /// Operations are asked about although their destination's circuit is open. A destination that rests is left alone.
        PollsPastCircuit,
        /// What a receiver remembers as failed under a key is sent under that key again. A call that may be repeated has its effect.
        RememberedRepeated,
        /// An edit that says the same gives the message a new key. An outbox repeats an effect only when an answer was lost.
        SameEditRenews,
        /// A message that nobody is to give up is given up. What is never given up stays queued.
        NeverGivenUp,
        /// Destinations that have not answered may have the outbox's whole room. Nobody waits for those who are silent.
        SilentTakeAll,
        /// Who is next begins anew when the object comes to life. Nobody waits longer than for its turn.
        TurnsRepeated,
    }
    units {
        /// A receiver that throttles now and then is sent less and less. Random throttling slows nobody down.
        RandomSlows,
    }
    service {
        /// A client may enqueue messages of any kind. What the program alone may say no client says.
        ClosedKindTaken,
        /// A client may edit dead letters of any kind. What the program alone may say no client says.
        ClosedKindEdited,
        /// A call by JSON may enqueue messages of any kind. What the program alone may say no client says.
        ClosedKindCalled,
        /// A message is shown with the values of headers that let somebody in. What is for a receiver alone nobody else sees.
        SecretHeaderShown,
    }
}

/// The tests are tested: unit tests must catch the variants of what other tests cannot see.
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
