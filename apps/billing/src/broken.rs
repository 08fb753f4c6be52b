//! Deliberately broken variants of the engine, which test its tests: each guarantee has variants that break it in the
//! one place that provides it, and a test must catch each of them.
//!
//! Contract: as for [those of the runtime](abide::broken). Without the feature `broken` the product is unchanged.

/// The environment variable that names a variant.
pub const VARIABLE: &str = "BILLING_BROKEN";

abide::broken_variants! {
    VARIABLE;
    states {
        /// A part of a period is rounded on its own. The parts of a period add up to its price.
        PartRoundedAlone,
        /// Halves are rounded away from zero. Rounding favors neither side.
        HalvesGained,
        /// The remaining credit of an invoice is lost. Credit is carried to the next invoice in full.
        CreditLost,
        /// Pending lines are not on the next invoice. The proration of a plan change is billed.
        ChangeUnbilled,
        /// A period is computed from the previous one. Periods do not drift, whatever the length of months.
        PeriodsDrift,
        /// A subscription that ends with its period is billed for the next one. A scheduled end is respected.
        EndUnheeded,
        /// A payment that succeeds after a reported failure does not count. A successful payment counts.
        LateMoneyIgnored,
        /// The current rules are applied to earlier outcomes. What was accepted once replays forever.
        RulesReplayed,
        /// One paid invoice settles all. Dunning ends with the last owed invoice.
        SettledEarly,
    }
    timelines {
        /// The amount of an invoice of an undone future is ignored. A customer pays for a period once across a restore.
        DifferenceForgotten,
        /// A restored subscription asks no invoice. What was paid in an undone future is paid.
        RestoredUnasked,
    }
    clock {
        /// Periods that ended during downtime are not billed. No period is unbilled.
        LatePeriodsSkipped,
        /// A period is billed but not entered. A billed period is entered.
        NeverEntered,
        /// Periods without service are billed. Only service is billed.
        UnservedBilled,
        /// A trial does not end. A trial is free until it ends.
        TrialKept,
        /// Days of dunning are counted from the last failure. Retries are on days 1, 3, 5 and 7.
        RetryDaysFromLast,
        /// Days of grace do not end. Service ends after the grace period.
        GraceForgotten,
        /// There is no service in the days of grace. Service continues until they end.
        GraceUnserved,
        /// A first invoice may be paid at any time. An unpaid subscription expires.
        ExpiryForgotten,
        /// Obsolete timers are kept. Timers follow from the chain.
        TimersKept,
        /// A failed order to an invoice is not repeated. Each invoice is created, and its payment started.
        OrderNotRepeated,
        /// A timer that fires early counts as done. Setting the clock back leaves no period unbilled.
        SetBackTaken,
        /// The rest of a skipped period is free. Service is billed.
        RestUnbilled,
        /// After a pause there is no dunning. Debts are dunned.
        DebtForgotten,
        /// An expired subscription is charged. A subscription that is not paid in time costs nothing.
        ExpiredCharged,
        /// A request overtakes overdue timers. What is due after downtime comes first.
        Overtaken,
        /// A subscription shows its state before downtime. A read sees everything due by now.
        ReadStale,
        /// Plan changes are omitted where no period is billed. Service is billed.
        ChangeLeftOut,
        /// A pause credits nothing. Only service is billed.
        PauseBilled,
        /// A plan change may result in any amount. Each period can be billed.
        ChangeUnbounded,
        /// An invoice that was written off is charged again. A written-off invoice is not charged.
        GivenUpCharged,
        /// Mutation: the credit for a period is kept when its invoice is voided. Promise: no customer gets money for
        /// nothing.
        VoidMints,
        /// Debts from before a pause are due immediately. After a pause the customer has the days of dunning.
        OldDebtDue,
        /// Missed retries follow immediately. Two attempts are a day apart.
        DunningBurst,
        /// Service is promised beyond the grace period. The reported end of service is correct.
        GraceUntold,
        /// A customer with subscriptions is deleted. A served customer can be billed.
        CustomerDeleted,
        /// A plan change without a quantity sets it to one. What was not requested stays unchanged.
        QuantityForgotten,
        /// A change to periods of another length also charges the rest of the old one. Each day is billed once.
        LengthChargedTwice,
        /// An advance notice comes after the event. A notice comes before.
        NoticeLate,
        /// An invoice of a cent is charged. Amounts below the minimum charge are on the next invoice.
        CentCharged,
        /// A free invoice waits for its payment. A free invoice needs no payment.
        FreeUnsettled,
        /// The end of grace credits nothing. Only service is billed.
        GraceBilled,
        /// A first invoice stays owed after the end. A customer who was never served owes nothing.
        UnservedOwed,
        /// Mutation: an invoice is voided with the credit that it has used. Promise: no customer pays for nothing.
        VoidKeepsCredit,
        /// Mutation: a credit on another invoice is kept when the period's own invoice is voided. Promise: no
        /// customer gets money for nothing.
        GivenBackKept,
        /// A report overtakes overdue timers. What is due after downtime comes first.
        ReportOvertakes,
        /// Orders of a chain wait until the clock catches up. Orders are due immediately.
        OrderPutOff,
        /// A payment whose start was not recorded does not count. Charged money is recorded.
        BegunUnheard,
        /// A credit note for pending lines counts for the period they were billed with. Paid amounts are credited.
        NoteOfOthersWithheld,
        /// Mutation: resumed service also charges what a credit note had credited. Promise: no customer pays for
        /// nothing.
        NoteClawedBack,
        /// Orders to an invoice are given up after some days. Each invoice is created, and its payment started.
        OrderGivenUp,
        /// Retries due after the grace period are made after downtime. Outcomes are in chronological order.
        RetriedAfterGrace,
    }
    payment {
        /// Each attempt has its own key at the gateway. A payment is created once.
        KeyOfEachTry,
        /// A lost response counts as a rejection. Charged money is recorded.
        LostMeansRefused,
        /// A rejection by the gateway counts as a failed payment. Charged money is recorded.
        RefusalBelieved,
        /// A payment without a webhook is not polled. Webhooks may be lost.
        NeverAsked,
        /// An outcome is written although it exists. A repeated step changes nothing.
        WrittenAgain,
        /// A duplicate webhook has another effect. A webhook takes effect once.
        EventHeardTwice,
        /// Webhooks are not passed on. A waiting payment continues immediately.
        EventForgotten,
        /// Each webhook shortens the customer's time. A customer always has the same time.
        WaitCutShort,
        /// A payment ends when the gateway does not report its status. Each payment has a known result.
        QuestionRefused,
        /// The gateway's response about another payment counts. Charged money is recorded.
        AnswerUnchecked,
        /// An invalid key at the gateway counts as a declined card. Only the gateway declines a card.
        StrangerDeclined,
        /// Each attempt of a refund has its own key at the gateway. Money is refunded once.
        RefundKeyOfEachTry,
        /// A failed refund counts as successful. A refund has a known result.
        RefundBelieved,
        /// Mutation: a payment that arrives when nothing is owed is kept. Promise: no customer pays for nothing.
        LateMoneyKept,
        /// Any amount of a payment can be refunded. Refunds never exceed the payment.
        RefundUnbounded,
        /// A repeated refund reserves money again. A refund counts once.
        RefundTwice,
        /// A credit note may have any amount. It never exceeds the invoice.
        CreditUnbounded,
        /// Mutation: a credit note recorded after the payment refunds nothing. Promise: no customer pays for nothing.
        NoteBehindPayment,
        /// A repeated credit counts again. A credit counts once.
        CreditTwice,
        /// Mutation: a plan change credits again what a credit note has credited. Promise: no customer gets money for
        /// nothing.
        GivenBackTwice,
        /// A trial that ended without a payment method waits for 23 hours. It ends immediately.
        TrialWaits,
        /// A payment keeps waiting for its customer although they pay with another card. A better card is used
        /// immediately.
        CardKept,
        /// The next payment begins before the waiting one has ended. Only one of two cards is charged.
        BothCards,
        /// Only the invoice gets the result. A payment reports to the subscription.
        SubscriptionUntold,
    }
    resources {
        /// A repeated report of a failure counts again. A report counts once.
        ReportTwice,
        /// Reports of attempts that never began are accepted. A report must match an attempt.
        NobodysReport,
        /// A report with another amount is accepted. A report must match the amount owed.
        AmountUnchecked,
        /// A manual payment begins a second attempt. There is one attempt at a time.
        AttemptBesideAttempt,
        /// A paid invoice is charged again. An invoice is paid once.
        PaidAttempted,
        /// An existing invoice accepts any draft. An invoice bills one period.
        DraftUnchecked,
        /// Any period may be billed. No period is billed twice.
        NumberUnchecked,
        /// An invoice is voided while it is being paid. A void invoice is not charged.
        VoidBesideAttempt,
        /// A subscription is not notified that its invoice is void. A void invoice is not owed.
        VoidUntold,
        /// A deleted price can be subscribed to. Deleted items are not sold.
        DeletedSold,
    }
    webhooks {
        /// Notices that an outbox has rejected are removed. Every outcome is reported.
        RefusedMeansTaken,
        /// Notices leave their resource before an outbox has them. Every outcome is reported.
        NoticesGoneFirst,
        /// Rejected notices are never retried. Every outcome is reported.
        NeverAgain,
        /// A failing endpoint blocks the others. No endpoint holds up another.
        OneStopsAll,
        /// A notice that is passed on again is another message. It is one message, however often it is passed on.
        DedupForgotten,
        /// Notices after a restore have the ids of undone ones. An id belongs to one notice.
        NumbersRepeat,
        /// Messages of a resource do not wait for each other. A resource's notices keep their order.
        OrderingForgotten,
        /// An endpoint gets all types. An endpoint gets only the types it wants.
        WantsIgnored,
        /// Messages for a deleted endpoint are retried forever. They become dead letters.
        GoneRetried,
        /// A notice is signed for any URL. It goes only to the registered URL of its endpoint.
        AnyUrlSigned,
        /// Notices are signed with any secret. Each has the signature of its endpoint.
        SignedByAnother,
        /// The state before an outcome is not remembered. Only changes are reported.
        StateForgotten,
    }
    api {
        /// Any sender's webhook counts as the gateway's. Unsigned webhooks are rejected.
        SignatureUnchecked,
        /// A webhook may have any age. A captured webhook cannot be replayed forever.
        OldEventHeard,
        /// A repeated request with a key is a new one. It counts once.
        KeyIgnored,
        /// Failed timers are not listed. What is stalled is visible.
        TimerUnseen,
        /// A rebuild omits invoices. It includes every resource.
        RebuildLeavesOut,
    }
    decade {
        /// Rows of settled resources are not written. The read model converges to the resources' states.
        RowForgotten,
    }
}
