//! The ledger is tested: what deliberately broken variants of the engine do with money, or with service, it must see.

use billing::broken::{VARIABLE, Variant};

/// Those that a few lives show. Rarer ones have their own tests.
const VARIANTS: &[Variant] = &[
    Variant::PartRoundedAlone,
    Variant::HalvesGained,
    Variant::CreditLost,
    Variant::ChangeUnbilled,
    Variant::PeriodsDrift,
    Variant::LateMoneyIgnored,
    Variant::SettledEarly,
    Variant::LatePeriodsSkipped,
    Variant::NeverEntered,
    Variant::UnservedBilled,
    Variant::TrialKept,
    Variant::RetryDaysFromLast,
    Variant::GraceForgotten,
    Variant::GraceUnserved,
    Variant::ExpiryForgotten,
    Variant::OrderNotRepeated,
    Variant::RestUnbilled,
    Variant::Overtaken,
    Variant::ChangeLeftOut,
    Variant::PauseBilled,
    Variant::DunningBurst,
    Variant::FreeUnsettled,
    Variant::GraceBilled,
    Variant::UnservedOwed,
    Variant::AttemptBesideAttempt,
    Variant::VoidUntold,
    Variant::DifferenceForgotten,
    Variant::RestoredUnasked,
];

#[test]
fn every_broken_variant_is_caught() {
    let settings = [("ABIDE_LEDGER_SEEDS", "100"), ("ABIDE_LEDGER_SHRINKS", "0")];
    abide_harness::hunt(
        VARIABLE,
        &settings,
        VARIANTS,
        |_| "the_ledger_agrees_with_the_engine",
    );
}
