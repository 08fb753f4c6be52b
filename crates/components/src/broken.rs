//! Deliberately broken variants of the components, which test their tests: a test that has never caught anything proves
//! nothing. Each promise has variants that break it in the one place where it is kept, and a test of the component must catch each.
//!
//! Contract: as of [those of the runtime](abide::broken). Without the feature `broken` not one instruction of the components is
//! different. They are broken for a whole process, in which a test must fail.

/// The environment variable that names a variant.
pub const VARIABLE: &str = "ABIDE_BROKEN_COMPONENT";

abide::broken_variants! {
    VARIABLE;
    units {
        /// An error of `PostgreSQL` that says something of the read model counts as the row's. Rows wait for a read model that is not ready.
        ModelsErrorIsRows,
        /// An error of a row counts as the read model's. A row that is refused stops no other.
        RowsErrorIsModels,
    }
    outcomes {
        /// What the schema does not allow is written, and leaves the state as it is. A refused transition changes nothing.
        SchemaIgnored,
        /// What the machine refuses is written. A refused transition changes nothing.
        RuleIgnored,
        /// An outcome is appended before the transaction of the rest. What fails leaves the table as it was.
        AppendedApart,
        /// The hook is called after the transaction. What fails leaves the table as it was.
        HookApart,
        /// The hook is not called. Each outcome is handed to the hook.
        HookForgotten,
        /// The hook is called before the outcome is applied. The hook sees what the outcome led to.
        HookFirst,
        /// Memory is not compared with the table. What is undone leaves memory as it was.
        MemoryTrusted,
        /// An outcome has the time of the clock, whatever that shows. Time never goes backwards along a chain.
        ClockTrusted,
        /// A snapshot is kept although its outcome was undone. No snapshot is ahead of the chain.
        SnapshotAhead,
        /// A snapshot's checksum is not compared. A damaged snapshot is not used.
        SnapshotUnchecked,
        /// A snapshot replaces the outcomes that led to it. A snapshot can be deleted without loss.
        ChainCompacted,
        /// Old data is not brought forward. Old outcomes are read by newer programs.
        UpcastSkipped,
    }
    patterns {
        /// A rate limiter never saves what it has admitted. Only the last second is forgotten.
        LimiterUnsaved,
        /// What was admitted leaves its window with the begin of its part. No window has too many.
        WindowLeavesEarly,
        /// A token does not come after the last one. Tokens grow.
        TokenRepeated,
        /// The alarm ends no lease. Leases end by themselves.
        LeaseLeftOpen,
        /// A fence admits whoever comes. Older holders are refused.
        FenceOpen,
        /// A session that is ended stays. It is ended for good.
        SessionLeftOpen,
        /// Sessions do not expire while nobody looks. The alarm deletes them.
        SessionLeftStored,
        /// A report counts whenever it comes. One that is late or repeated counts once.
        ReportRepeated,
        /// A shard does not report what has changed. Totals become exact.
        ReportForgotten,
        /// Of two with the same score both have the better rank. The one that reached it first is ahead.
        TieIgnored,
        /// Whoever falls silent stays. Only those who give signs of life are here.
        SilentStay,
        /// Whoever loses the connection has left. They have until the timeout.
        BrokenIsClosed,
        /// A call that may have run is repeated without a key. It is applied once.
        UnsureRepeated,
        /// A key is not sent. A call with a key is applied once.
        KeyDropped,
        /// An object that has something to do is deleted. It is kept.
        CleanupBlind,
        /// Using an object does not keep it. It goes when nobody has used it.
        UseIgnored,
    }
    schedule {
        /// Timers count as due a second before their time. No timer goes off early.
        TimerEarly,
        /// What was taken when the process ended is left so. Each occurrence has its effect.
        CutOffForgotten,
        /// Attempts are not counted. Attempts end.
        FiringUncounted,
        /// An occurrence that had its effect does not end the first time. It has its effect once.
        EndForgotten,
        /// What a handler wrote before it failed stays. An attempt that failed has no effect.
        FailureKept,
        /// All that were missed go off although only the last is wanted. The misfire policy.
        MissedRepeated,
        /// Of those that were missed the last goes off although all are wanted. The misfire policy.
        MissedMerged,
        /// What comes too late goes off although it is to be skipped. The misfire policy.
        MissedFires,
        /// An occurrence goes off beside the one before. The overlap policy.
        OverlapAllowed,
        /// An occurrence that waits for the one before is left out. The overlap policy.
        QueuedDropped,
        /// What has used up its attempts is forgotten. What fails is seen.
        FailedForgotten,
        /// There is always another attempt. Attempts end.
        RetriedForEver,
        /// A retry does not wait. Retries have their waits.
        RetriedAtOnce,
        /// Setting a timer as it is sets it anew. Setting a timer as it is changes nothing.
        SetAnew,
        /// What a timer had begun before it was set anew is tried again. A timer that was set anew goes off as it is set.
        StaleRetried,
        /// A timer whose next time is not known ends. What fails is seen.
        UnplannedEnds,
        /// Times of the day go off whenever a clock shows them. A time that does not exist, or comes twice, goes off once.
        ListIsRhythm,
    }
    queue {
        /// A message that was cut off on its way is never due again. No message is lost.
        ClaimForEver,
        /// Nobody is woken for what is due when the process ends. No message is lost.
        RecoveryUnset,
        /// A batch that failed counts as consumed. No message is lost.
        FailureAcknowledged,
        /// A message that is to be tried again counts as consumed. One message is tried again alone.
        RetryAcknowledged,
        /// What a consumer has marked of a batch that failed is forgotten. One message is acknowledged alone.
        MarksForgotten,
        /// A message that is given up is removed. What is given up is a dead letter.
        BuriedWithoutTrace,
        /// There is always another attempt. Attempts end.
        DeliveredForEver,
        /// Attempts are not counted. Attempts end.
        DeliveryUncounted,
        /// A consumer is called before its attempt is on disk. An attempt that was begun counts.
        DeliveryNotDurable,
        /// Delays count for nothing. No message comes early.
        DelayIgnored,
        /// A shard takes whatever is sent. Back-pressure.
        BoundIgnored,
        /// Any number of batches is on its way. Concurrency is bounded.
        ConcurrencyIgnored,
        /// The newest messages come first. Messages become due in their order.
        OrderReversed,
        /// Dedup keys are not looked up. A message with a dedup key is taken once.
        DedupIgnored,
        /// Dead letters that another queue has not taken are removed. No message is lost.
        ForwardForgotten,
        /// A queue that is paused goes on. A queue that is paused consumes nothing.
        PauseIgnored,
    }
    projection {
        /// An earlier change replaces a later one in the read model. A row is written only if it shows a later change.
        OlderWritten,
        /// Of several changes of a row in one batch the first is written. A row shows its newest change.
        OldestOfBatch,
        /// A row cannot be put while the queue refuses. A read model that fails stops nobody.
        PutRefused,
        /// Rows leave their object before the queue has them. Each row reaches the read model.
        RowsGoneFirst,
        /// Rows that the queue has not taken are removed. Each row reaches the read model.
        RefusedMeansTaken,
        /// A row that has changed on its way is removed. Each row reaches the read model.
        ChangeForgotten,
        /// Nobody is woken for rows that wait when the process ends. Each row reaches the read model.
        FeedUnguarded,
        /// Rows for a read model that is not there count as written. The queue holds and retries.
        AbsentMeansWritten,
        /// A read model that is not ready takes attempts from its rows. Rows wait for a read model that is not ready.
        WaitCounts,
        /// A row that the read model refuses counts as written. What is given up is a dead letter.
        RefusedUnseen,
        /// A rebuild leaves what is there. A rebuild makes the read model anew.
        RebuildOnTop,
        /// A rebuild leaves out its last source. A rebuild asks each source.
        RebuildSkips,
        /// A rebuild does not wait for the read model. A rebuild ends when the read model has all.
        RebuildHasty,
    }
    workflow {
        /// A step's result is not stored. A result is stored once.
        ResultUnstored,
        /// Attempts are not counted. Attempts end.
        AttemptUncounted,
        /// A step's function is called before its attempt is on disk. An attempt that was begun counts.
        AttemptNotDurable,
        /// There is always another attempt. Attempts end.
        StepForEver,
        /// A retry does not wait. Retries have their waits.
        StepAtOnce,
        /// Each attempt has a key of its own. All attempts of a step have one key.
        KeyOfAttempt,
        /// Taking one event drops the others of its name. No event is lost.
        EventsDropped,
        /// An event that was taken is still there. No event is heard twice.
        EventHeardTwice,
        /// The newest event comes first. Events are taken in the order in which they came.
        EventsReversed,
        /// Sleeps end a second before their time. No sleep ends early.
        SleepEarly,
        /// A cancellation is not given to the workflow. What is canceled ends.
        CancelIgnored,
        /// A pause does not keep steps from beginning. Nothing begins in an instance that is paused.
        PauseUnheeded,
        /// A step that is asked for at another place is taken for the same. Changed code is found.
        MovedUnnoticed,
        /// A step that is not asked for any more is not missed. Changed code is found.
        MissingUnnoticed,
        /// A step that is new in the past is taken. Changed code is found.
        InsertedUnnoticed,
        /// A restart keeps what was asked for after the step. A restart does all that follows again.
        LaterKept,
        /// A restart does not give events back. A restart finds the events that it needs again.
        EventsKept,
        /// Something is told to another object at most once. A child starts, and its parent hears of its end.
        ToldOnce,
        /// Nobody is woken for an instance whose process has ended. Every instance ends.
        InstanceUnguarded,
        /// Children that nobody waits for go on. A child that nobody waits for is canceled.
        ChildrenForgotten,
        /// The directory takes whatever it is told last. The newest status counts.
        StaleListed,
        /// A result has its place in the order when it is stored. Life does what a replay does.
        OrderedWhenStored,
        /// All who wait learn of a cancellation at a time. Life does what a replay does.
        CanceledTogether,
        /// The second use of a name has the key of a name that ends with a number. Two steps have nothing in common.
        NamesCollide,
        /// A restart gives events back under the name of the step. A restart finds the events that it needs again.
        EventsRenamed,
        /// An instance that somebody else has started is taken for a child. A parent hears of its children's end.
        ChildAdopted,
        /// The event with which an instance is started is not kept. It is started with the event, or not at all.
        FirstEventLost,
        /// A decision for a version is not stored. It is the same from then on.
        VersionForgotten,
        /// An instance that continues as new keeps its history. It has an empty one.
        HistoryKept,
        /// Waits end at their time, whatever the clock shows. No wait gets longer by a clock that is set back.
        WaitsFollowClock,
    }
}

/// The tests are tested: unit tests must catch the variants of what other tests cannot see.
#[cfg(all(test, feature = "broken"))]
mod tests {
    use super::{VARIABLE, Variant};

    fn caught_by(variant: Variant) -> &'static str {
        match variant {
            Variant::ModelsErrorIsRows | Variant::RowsErrorIsModels => {
                "projection::postgres::tests::an_error_is_of_the_row_only_if_another_row_need_not_meet_it"
            }
            _ => panic!("{variant:?} is of another part"),
        }
    }

    #[test]
    fn every_broken_variant_is_caught() {
        abide_harness::hunt(VARIABLE, &[], Variant::of("units"), caught_by);
    }
}
