//! Deliberately broken variants of the engine, which test its tests: each guarantee has variants that break it in the
//! one place that provides it, and a test must catch each of them.
//!
//! Contract: as for [those of the runtime](abide::broken). Without the feature `broken` the product is unchanged.

/// The environment variable that names a variant.
pub const VARIABLE: &str = "BILLING_BROKEN";

abide::broken_variants! {
    VARIABLE;
    states {
        /// A part of a period is rounded by itself. The parts of a period add up to its price.
        PartRoundedAlone,
        /// Halves go away from zero. Halves are no gain for either side.
        HalvesGained,
        /// The credit that an invoice has left is forgotten. Credit goes to the next invoice, whole.
        CreditLost,
        /// Lines that wait are not on the next invoice. What a change of plan gives back and costs is billed.
        ChangeUnbilled,
        /// A period is counted from the one before. Months of any length do not drift.
        PeriodsDrift,
        /// What ends with its period is billed for the next. An end is heeded.
        EndUnheeded,
        /// Money that comes after a failure was reported does not count. Money that is there counts.
        LateMoneyIgnored,
        /// What was accepted once is asked to keep today's rules. What was accepted once replays for ever.
        RulesReplayed,
        /// One invoice that is paid stands for all. Dunning ends with the last invoice that is owed.
        SettledEarly,
    }
    clock {
        /// Periods that have ended when a node comes back are not billed. No period is unbilled.
        LatePeriodsSkipped,
        /// A period is billed and not entered. A period that is billed is entered.
        NeverEntered,
        /// Periods without service are billed. What nobody is served is not billed.
        UnservedBilled,
        /// A trial does not end. A trial costs nothing until it ends.
        TrialKept,
        /// Days of dunning are counted from the last failure. Retries are on days 1, 3, 5 and 7.
        RetryDaysFromLast,
        /// Days of grace do not end. Service ends after the grace.
        GraceForgotten,
        /// There is no service in the days of grace. Service goes on until they end.
        GraceUnserved,
        /// A first invoice may be paid at any time. A subscription that is not paid expires.
        ExpiryForgotten,
        /// Timers that are not wanted any more stay. Timers follow from the chain.
        TimersKept,
        /// What an invoice was asked for in vain is not asked again. Each invoice is created, and its payment begun.
        OrderNotRepeated,
        /// A timer that goes off before its time counts as done. A clock that is set back leaves no period unbilled.
        SetBackTaken,
        /// The rest of a period that was skipped costs nothing. What somebody is served is billed.
        RestUnbilled,
        /// After a pause nobody is dunned. What is owed is dunned for.
        DebtForgotten,
        /// What has expired is charged. A subscription that is not paid in time costs nothing.
        ExpiredCharged,
        /// What somebody asks for overtakes what was to happen before. What a node that was away makes good comes first.
        Overtaken,
        /// Changes of plan are left out where no period is billed. What somebody is served is billed.
        ChangeLeftOut,
        /// A pause gives nothing back. What nobody is served is not billed.
        PauseBilled,
        /// A change of plan may come to any amount. Each period can be billed.
        ChangeUnbounded,
        /// An invoice that was written off is tried again. What was given up is not charged.
        GivenUpCharged,
        /// What was given back of a period stays when its invoice is voided. Nobody gets money for nothing.
        VoidMints,
        /// What was owed before a pause is due at once. Who comes back has the days of dunning.
        OldDebtDue,
        /// Retries that were missed follow at once. Two attempts are a day apart.
        DunningBurst,
        /// Service is promised beyond the grace. What is said of service is right.
        GraceUntold,
        /// Who has subscriptions is deleted. Who is served can be billed.
        CustomerDeleted,
        /// A change of plan without a quantity sets it to one. What nobody has asked for stays.
        QuantityForgotten,
        /// A change to periods of another length charges the rest of the old one, too. Each day is billed once.
        LengthChargedTwice,
        /// What will happen is told when it has happened. A notice comes before.
        NoticeLate,
        /// An invoice of a cent is charged. What is less than its charge costs is on the next invoice.
        CentCharged,
        /// What costs nothing waits for its payment. What costs nothing needs none.
        FreeUnsettled,
        /// The end of grace gives nothing back. What nobody is served is not billed.
        GraceBilled,
        /// A first invoice stays owed after the end. Who was never served owes nothing.
        UnservedOwed,
        /// An invoice is voided with the credit that it has used. Nobody pays for nothing.
        VoidKeepsCredit,
        /// What another invoice has given back of a period stays when its own is voided. Nobody gets money for nothing.
        GivenBackKept,
        /// A report is written before what was to happen before it. What a node that was away makes good comes first.
        ReportOvertakes,
        /// What a chain orders waits until the clock is where it was. What is ordered is due at once.
        OrderPutOff,
        /// A payment that nobody heard the beginning of counts as none. Money that was taken is known of.
        BegunUnheard,
        /// A credit note for what waited for an invoice counts for the period that it was billed in. What was paid for comes back.
        NoteOfOthersWithheld,
        /// Who is served again pays for what a credit note had given back, too. Nobody pays for nothing.
        NoteClawedBack,
        /// What an invoice is asked for is given up after some days. Each invoice is created, and its payment begun.
        OrderGivenUp,
        /// Retries whose day came after the grace are made when a node comes back. What is written keeps the order of its times.
        RetriedAfterGrace,
    }
    payment {
        /// Each try has a key of its own at the gateway. A payment is made known once.
        KeyOfEachTry,
        /// An answer that was lost counts as a refusal. Money that was taken is known of.
        LostMeansRefused,
        /// What the gateway refuses counts as a payment that failed. Money that was taken is known of.
        RefusalBelieved,
        /// A payment of which no webhook tells is not asked about. Webhooks may be lost.
        NeverAsked,
        /// An outcome is written although it is there. A step that is repeated changes nothing.
        WrittenAgain,
        /// A copy of a webhook is another one. A webhook is heard once.
        EventHeardTwice,
        /// Webhooks are not passed on. A payment that waits goes on at once.
        EventForgotten,
        /// Each webhook shortens the customer's time. A customer has the same time.
        WaitCutShort,
        /// A gateway that does not say how a payment stands ends it. Each payment comes to an end that is known.
        QuestionRefused,
        /// What the gateway says of another payment counts. Money that was taken is known of.
        AnswerUnchecked,
        /// A wrong key at the gateway counts as a refused card. A card is refused by the gateway.
        StrangerDeclined,
        /// Each try of a refund has a key of its own at the gateway. Money goes back once.
        RefundKeyOfEachTry,
        /// A refund that has failed counts as one that succeeded. A refund comes to an end that is known.
        RefundBelieved,
        /// Money that comes when nothing is owed any more is kept. Nobody pays for nothing.
        LateMoneyKept,
        /// Of a payment any amount is refunded. Nobody gets back more than they have paid.
        RefundUnbounded,
        /// A refund that is asked for again sets money aside again. A refund counts once.
        RefundTwice,
        /// A credit note may be over any amount. It is never over more than the invoice.
        CreditUnbounded,
        /// A credit note that an invoice hears of behind its payment gives nothing back. Nobody pays for nothing.
        NoteBehindPayment,
        /// A credit that is told again counts again. A credit counts once.
        CreditTwice,
        /// What a credit note has given back of a period a change of plan gives back again. Nobody gets money for nothing.
        GivenBackTwice,
        /// A trial that ended without a way to pay waits for 23 hours. It ends at once.
        TrialWaits,
        /// A payment that waits for its customer is waited for though they pay with another card. A better card is used at once.
        CardKept,
        /// The next payment begins before the one that waits has ended. One of two cards is charged.
        BothCards,
        /// Only the invoice hears of the end. A payment reports to the subscription.
        SubscriptionUntold,
    }
    resources {
        /// A failure that was reported before is news. A report is heard once.
        ReportTwice,
        /// Reports of attempts that nobody began are heard. A report fits an attempt.
        NobodysReport,
        /// A report of another amount is heard. A report fits what is owed.
        AmountUnchecked,
        /// Paying by hand begins an attempt beside the one that is on its way. There is one at a time.
        AttemptBesideAttempt,
        /// A paid invoice is to be paid. An invoice is paid once.
        PaidAttempted,
        /// An invoice that is there takes any draft. An invoice bills one period.
        DraftUnchecked,
        /// Any period may be billed. No period is billed twice.
        NumberUnchecked,
        /// An invoice is voided while it is being paid. No money is taken for a void invoice.
        VoidBesideAttempt,
        /// A subscription does not hear that its invoice is void. What nobody is to pay is not owed.
        VoidUntold,
        /// What was deleted can be subscribed to. What was deleted is not sold.
        DeletedSold,
    }
    webhooks {
        /// Notices that an outbox has not taken are removed. Every outcome is told.
        RefusedMeansTaken,
        /// Notices leave their resource before an outbox has them. Every outcome is told.
        NoticesGoneFirst,
        /// Nobody is woken for notices that were refused. Every outcome is told.
        NeverAgain,
        /// An endpoint that refuses keeps those behind it from theirs. No endpoint holds up another.
        OneStopsAll,
        /// A notice that is handed over again is another message. It is one message, however often it is handed over.
        DedupForgotten,
        /// Messages of a resource do not wait for each other. A resource's notices keep their order.
        OrderingForgotten,
        /// An endpoint is told everything. An endpoint is told what it wants.
        WantsIgnored,
        /// What waits for a deleted endpoint is tried for ever. It becomes a dead letter.
        GoneRetried,
        /// A notice is signed whatever its URL. It goes to the URL that its endpoint is registered with.
        AnyUrlSigned,
        /// Notices are signed with any secret. Each has the signature of its endpoint.
        SignedByAnother,
        /// The state before an outcome is not remembered. What is told is what has changed.
        StateForgotten,
    }
    api {
        /// Anybody's webhook is the gateway's. What is not signed is not heard.
        SignatureUnchecked,
        /// A webhook may be as old as it likes. What somebody has seen cannot be repeated for ever.
        OldEventHeard,
        /// A request with a key is a new one each time. It counts once.
        KeyIgnored,
        /// Timers that were given up are not listed. What does not go on is seen.
        TimerUnseen,
        /// A rebuild does not ask invoices. It asks every resource.
        RebuildLeavesOut,
    }
    decade {
        /// Rows of what is settled are not put. The read model comes to what the resources are.
        RowForgotten,
    }
}
