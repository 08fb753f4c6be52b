//! Deliberately broken variants of the components, which test their tests. Each guarantee has variants that violate it
//! in the one place that implements it, and a test of the component must catch each.
//!
//! Contract: the same as of [those of the runtime](abide::broken). Without the feature `broken` the components' code is
//! unchanged. A variant applies to a whole process, in which a test must fail.

/// The environment variable that names a variant.
pub const VARIABLE: &str = "ABIDE_BROKEN_COMPONENT";

abide::broken_variants! {
    VARIABLE;
    units {
        /// An error of a row counts as the read model's. A row that is refused stops no other.
        RowsErrorIsModels,
    }
    outcomes {
        /// A transition that the schema does not allow is written, and leaves the state unchanged. A refused transition
        /// changes nothing.
        SchemaIgnored,
        /// An outcome that the machine rejects is written. A refused transition changes nothing.
        RuleIgnored,
        /// What is written of an outcome is several transactions. What fails leaves the table as it was.
        WrittenInParts,
        /// The hook is not called. Each outcome is handed to the hook.
        HookForgotten,
        /// The hook is called before the outcome is applied. The hook sees what the outcome led to.
        HookFirst,
        /// Memory is not compared with the table. A rollback also restores memory.
        MemoryTrusted,
        /// An outcome has the time of the clock, whatever that shows. Time never goes backwards along a chain.
        ClockTrusted,
        /// A snapshot is kept although its outcome was rolled back. No snapshot is ahead of the chain.
        SnapshotAhead,
        /// A snapshot's checksum is not compared. A damaged snapshot is not used.
        SnapshotUnchecked,
        /// A snapshot replaces the outcomes that led to it. A snapshot can be deleted without loss.
        ChainCompacted,
        /// Old data is not upcast. Newer programs read old outcomes.
        UpcastSkipped,
    }
    patterns {
        /// A rate limiter never saves what it has admitted. Only the last second is forgotten.
        LimiterUnsaved,
        /// What was admitted leaves its window with the begin of its part. No window has too many.
        WindowLeavesEarly,
        /// A token does not come after the last one. Tokens grow.
        TokenRepeated,
        /// A dormant lock gives leases. A fork of a lock grants nothing.
        DormantGrants,
        /// Mutation: the alarm ends no lease. Promise: leases expire.
        LeaseLeftOpen,
        /// Mutation: a fence admits every holder. Promise: older holders are refused.
        FenceOpen,
        /// A session that is ended stays. It is ended for good.
        SessionLeftOpen,
        /// Mutation: sessions that are not used do not expire. Promise: the alarm deletes them.
        SessionLeftStored,
        /// A report counts whenever it comes. One that is late or repeated counts once.
        ReportRepeated,
        /// A shard does not report what has changed. Totals become exact.
        ReportForgotten,
        /// Of two with the same score both have the better rank. The one that reached it first is ahead.
        TieIgnored,
        /// Mutation: silent visitors are kept. Promise: only visitors that sent a heartbeat are present.
        SilentStay,
        /// Mutation: a visitor who loses the connection has left. Promise: they may return until the timeout.
        BrokenIsClosed,
        /// A call that may have run is repeated without a key. It is applied once.
        UnsureRepeated,
        /// A key is not sent. A call with a key is applied once.
        KeyDropped,
        /// An object that has something to do is deleted. It is kept.
        CleanupBlind,
        /// Mutation: using an object does not keep it. Promise: an object is deleted only when it is unused.
        UseIgnored,
    }
    party {
        /// A message also goes to those who are excepted. They are left out.
        ExceptIgnored,
        /// Mutation: asking for the connections with a tag returns all. Promise: it returns those with the tag.
        TagIgnored,
        /// A connection's state is not kept. It survives the object's leaving memory.
        StateUnkept,
        /// A full room takes another connection. The number of connections is bounded.
        RoomOverfull,
        /// Of two connections with one id the older is found. A client that has come back is found.
        OldestFound,
    }
    schedule {
        /// A copy keeps the timers of its original. A copy does not do its original's work.
        CopyGoesOff,
        /// Timers count as due a second before their time. No timer goes off early.
        TimerEarly,
        /// A run that was claimed at a crash is not settled. Each occurrence has its effect.
        CutOffForgotten,
        /// Attempts are not counted. Attempts end.
        FiringUncounted,
        /// A completed occurrence is not finished the first time. It has its effect once.
        EndForgotten,
        /// A failed handler's writes remain. A failed attempt has no effect.
        FailureKept,
        /// Of those that were missed the last goes off, whatever is wanted. The misfire policy.
        MisfireIgnored,
        /// An occurrence goes off beside the one before. The overlap policy.
        OverlapAllowed,
        /// An occurrence that waits for the one before is left out. The overlap policy.
        QueuedDropped,
        /// A run that has used up its attempts is removed. Failures are reported.
        FailedForgotten,
        /// There is always another attempt. Attempts end.
        RetriedForEver,
        /// A retry does not wait. Retries have their waits.
        RetriedAtOnce,
        /// Setting a timer to the same spec replaces it. Setting a timer to the same spec changes nothing.
        SetAnew,
        /// A run of a replaced timer is retried. A replaced timer follows its new spec.
        StaleRetried,
        /// A timer whose next time is unknown is finished. Failures are reported.
        UnplannedEnds,
        /// A timer that catches up keeps its place before others. No timer is behind the catch-up of another.
        CatchUpFirst,
        /// Times of the day go off whenever a clock shows them. A time that does not exist, or comes twice, goes off once.
        ListIsRhythm,
    }
    queue {
        /// Ids of messages are used again after a restore. An id belongs to one message.
        IdsRepeated,
        /// A message whose attempt was interrupted is never due again. No message is lost.
        ClaimForEver,
        /// A batch that failed counts as consumed. No message is lost.
        FailureAcknowledged,
        /// A message that is to be tried again counts as consumed. One message is tried again alone.
        RetryAcknowledged,
        /// Marks in a failed batch are ignored. Messages are acknowledged individually.
        MarksForgotten,
        /// A message that is given up is removed. What is given up is a dead letter.
        BuriedWithoutTrace,
        /// There is always another attempt. Attempts end.
        DeliveredForEver,
        /// Attempts are not counted. Attempts end.
        DeliveryUncounted,
        /// Delays are ignored. No message is early.
        DelayIgnored,
        /// A shard accepts everything. Back-pressure.
        BoundIgnored,
        /// Any number of batches is in flight. Concurrency is bounded.
        ConcurrencyIgnored,
        /// The newest messages come first. Messages become due in their order.
        OrderReversed,
        /// Dedup keys are not looked up. A message with a dedup key is accepted once.
        DedupIgnored,
        /// Dead letters that another queue has not taken are removed. No message is lost.
        ForwardForgotten,
        /// A paused queue continues. A paused queue consumes nothing.
        PauseIgnored,
        /// A batch that its consumer throttles has used up an attempt. Throttling uses up no attempts.
        ThrottledCounts,
        /// A message's last attempt after a crash is made beside others. No message is given up for another's crash.
        SuspectsTogether,
    }
    projection {
        /// An earlier change replaces a later one in the read model. A row is written only if it shows a later change.
        OlderWritten,
        /// Of several changes of a row in one batch the first is written. A row shows its newest change.
        OldestOfBatch,
        /// Mutation: a row cannot be put while the queue refuses. Promise: a failing read model blocks no object.
        PutRefused,
        /// Rows leave their object before the queue has them. Each row reaches the read model.
        RowsGoneFirst,
        /// Rows that the queue has not taken are removed. Each row reaches the read model.
        RefusedMeansTaken,
        /// A row that has changed on its way is removed. Each row reaches the read model.
        ChangeForgotten,
        /// Rows for an unavailable read model count as written. The queue holds and retries.
        AbsentMeansWritten,
        /// A read model that is not ready takes attempts from its rows. Rows wait for a read model that is not ready.
        WaitCounts,
        /// A row that the read model refuses counts as written. What is given up is a dead letter.
        RefusedUnseen,
        /// Rows compare by their number alone. After a restore the read model equals the objects.
        TimelineIgnored,
        /// After a restore an object does not send its rows again. After a restore the read model equals the objects.
        RestoreUnsent,
        /// A rebuild does not wait for the read model. A rebuild ends when the read model has all.
        RebuildHasty,
    }
    yjs {
        /// Mutation: a change is shown and not stored. Promise: every change that a client was shown is on disk.
        ChangeUnstored,
        /// What was refused stays in memory. A refused update changes nothing.
        RefusedKept,
        /// The document grows beyond its bound. The stored document is bounded.
        DocumentUnbounded,
        /// An update takes as long as it needs. The work of an update is bounded.
        WorkUnbounded,
        /// A read-only connection changes the document. A reader changes nothing.
        ReaderWrites,
        /// Updates are never merged. The stored document stays small.
        UpdatesUnmerged,
        /// A snapshot is stored beside the updates that it was merged from. The stored document stays small.
        UpdatesKept,
        /// An update that changes nothing is stored. The stored document stays small.
        RepeatStored,
        /// A client is not asked for what its update depends on. All replicas become the same document.
        RestUnasked,
        /// Mutation: the others are not told that a client left. Promise: a client that left is no longer shown.
        GoneStay,
        /// Mutation: a repeated state revives a client that left. Promise: a client that left is no longer shown.
        DepartedForgotten,
        /// Mutation: every client may change a client's state. Promise: a state belongs to the connection that
        /// brought it.
        StrangerBelieved,
        /// States are not attached to their connections. They survive the object's leaving memory.
        StatesUnattached,
    }
    workflow {
        /// After a restore an instance does not ask its children. A parent never waits for a child that has ended.
        ChildUnasked,
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
        /// Mutation: each attempt has its own key. Promise: all attempts of a step have one key.
        KeyOfAttempt,
        /// Consuming one event drops the others of its name. No event is lost.
        EventsDropped,
        /// A consumed event stays available. No event is consumed twice.
        EventHeardTwice,
        /// The newest event comes first. Events are consumed in the order in which they arrived.
        EventsReversed,
        /// Sleeps end a second before their time. No sleep ends early.
        SleepEarly,
        /// A cancellation does not reach the workflow. A canceled instance ends.
        CancelIgnored,
        /// A pause does not prevent steps from starting. Nothing starts in a paused instance.
        PauseUnheeded,
        /// A step that is requested at another position is accepted. Changed code is detected.
        MovedUnnoticed,
        /// A step that is no longer requested is not missed. Changed code is detected.
        MissingUnnoticed,
        /// A new step in the past is accepted. Changed code is detected.
        InsertedUnnoticed,
        /// A restart keeps steps that were requested after the step. A restart repeats everything that follows.
        LaterKept,
        /// A notice to another object is sent at most once. A child starts, and its parent learns of its end.
        ToldOnce,
        /// Mutation: children that are no longer awaited continue. Promise: they are canceled.
        ChildrenForgotten,
        /// The directory stores whatever arrives last. The newest status counts.
        StaleListed,
        /// A result gets its position when it is stored. The first execution behaves like a replay.
        OrderedWhenStored,
        /// All waiters learn of a cancellation at once. The first execution behaves like a replay.
        CanceledTogether,
        /// The second use of a name has the key of a name that ends with a number. Two steps have nothing in common.
        NamesCollide,
        /// A restart makes events available under the name of the step. A restart finds the events that it needs again.
        EventsRenamed,
        /// Mutation: an instance that another caller started is taken for a child. Promise: a parent is told of its
        /// children's end.
        ChildAdopted,
        /// The event with which an instance is started is not kept. It is started with the event, or not at all.
        FirstEventLost,
        /// A decision for a version is not stored. It stays the same from then on.
        VersionForgotten,
        /// An instance that continues as new keeps its history. It has an empty one.
        HistoryKept,
        /// An attempt that was throttled counts. Throttling uses up no attempts.
        StepThrottledCounts,
        /// Of the steps in flight at a crash each has failed. No step has failed for another's crash.
        StepsBlamedTogether,
        /// Waits end at their time, whatever the clock shows. No wait is longer because a clock is set back.
        WaitsFollowClock,
    }
}

/// Tests the tests: unit tests must catch the variants that other tests cannot see.
#[cfg(all(test, feature = "broken"))]
mod tests {
    use super::{VARIABLE, Variant};

    fn caught_by(variant: Variant) -> &'static str {
        match variant {
            Variant::RowsErrorIsModels => {
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
