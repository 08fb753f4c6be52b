//! A subscription through years of payments and changes, without objects.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod chains;

use abide::{limits::schedule::MAX_METADATA_BYTES, outcomes::Schema};
use proptest::prelude::*;
use serde::Serialize;

use billing::{
    Anchor, DUNNING_DAYS, Every, LineKind, Money, Period, Time,
    clock::Collection,
    machines::ABSENT,
    proration,
    states::{
        Created, Draft, GRACE_DAYS, Invoice, Invoiced, MAX_QUANTITY, Moment, PaymentResult, Plan,
        Report, Step, Subscription, Verdict,
    },
};

const ID: &str = "sub_1";
const DAY: i64 = 24 * 60 * 60 * 1_000;

fn euro(amount: i64) -> Money {
    Money::new(amount, "EUR".parse().unwrap()).unwrap()
}

fn plan(amount: i64) -> Plan {
    Plan {
        price: format!("price_{amount}"),
        product: "prod_1".into(),
        unit_amount: euro(amount),
        quantity: 1,
        every: Every::MONTH,
    }
}

/// A chain in memory.
struct World {
    state: &'static str,
    live: Subscription,
    chain: Vec<(&'static str, &'static str, Time, String)>,
}

impl World {
    fn new(trial_end: Option<Time>) -> Self {
        let mut world = Self {
            state: ABSENT,
            live: Subscription::default(),
            chain: Vec::new(),
        };
        let created = Created {
            customer: "cus_1".into(),
            plan: plan(1_000),
            at: Time(0),
            trial_end,
            terms: None,
        };
        let outcome = trial_end.map_or("incomplete", |_| "trialing");
        world.write("create", outcome, Time(0), &created);
        world
    }

    fn write(
        &mut self,
        action: &'static str,
        outcome: &'static str,
        at: Time,
        data: &impl Serialize,
    ) {
        let json = serde_json::to_string(data).unwrap();
        let schema = Schema::of::<Subscription>().unwrap();
        let next = schema.next(self.state, action, outcome);
        self.state = next.unwrap_or_else(|| panic!("{} {action} {outcome}", self.state));
        let step = Step {
            action,
            outcome,
            at,
            json: &json,
        };
        self.live.validate(&step).unwrap();
        self.live.apply(&step).unwrap();
        self.chain.push((action, outcome, at, json));
    }

    /// Bills the next period and enters it; the invoice's id.
    fn bill(&mut self) -> Draft {
        let draft = self.live.next_invoice(ID).unwrap();
        let invoiced = Invoiced {
            draft: draft.clone(),
        };
        let at = draft.period.start;
        self.write("bill", "invoiced", at, &invoiced);
        self.write("advance", "advanced", at, &draft.period);
        draft
    }

    fn report(&mut self, draft: &Draft, attempt: u32, verdict: Verdict, at: Time) -> Report {
        let result = PaymentResult {
            invoice: draft.id(),
            intent: Invoice::intent(&draft.id(), attempt),
            attempt,
            amount: draft.totals().unwrap().due,
            verdict,
            reason: None,
        };
        let report = self.live.report(ID, self.state, &result, at).unwrap();
        if let Report::News(outcome, collected) = &report {
            self.write("collect", outcome, at, collected);
        }
        report
    }
}

#[test]
fn half_a_minor_unit_goes_to_the_even_neighbour() {
    let period = Period {
        number: 0,
        start: Time(0),
        end: Time(30 * DAY),
    };
    for (price, half) in [(5, 2), (7, 4), (-5, -2), (-7, -4)] {
        let accrued = proration::accrued(euro(price), &period, Time(15 * DAY));
        assert_eq!(accrued, Ok(euro(half)));
    }
}

#[test]
fn months_from_the_31st_do_not_drift() {
    // The last day of 1970's January.
    let anchor = Anchor::new(Time(30 * DAY), Every::MONTH).unwrap();
    let march = Time((31 + 28 + 30) * DAY);
    assert_eq!(anchor.start(2), Ok(march));
}

#[test]
fn paying_the_first_invoice_activates_once() {
    let mut world = World::new(None);
    let draft = world.bill();
    assert_eq!((world.state, draft.period.number), ("incomplete", 0));
    let first = world.report(&draft, 1, Verdict::Paid, Time(1));
    assert!(matches!(first, Report::News("settled", _)), "{first:?}");
    assert_eq!(world.state, "active");
    for verdict in [Verdict::Paid, Verdict::Failed, Verdict::RequiresAction] {
        assert_eq!(world.report(&draft, 1, verdict, Time(2)), Report::Old);
    }
}

#[test]
fn a_failed_payment_is_tried_again_on_days_1_3_5_and_7_and_no_longer() {
    let mut world = World::new(None);
    let first = world.bill();
    world.report(&first, 1, Verdict::Paid, Time(1));
    let draft = world.bill();
    let failed_at = draft.period.start;
    let mut at = failed_at;
    for (attempt, day) in (1..).zip(DUNNING_DAYS) {
        world.report(&draft, attempt, Verdict::Failed, at);
        assert_eq!(world.state, "past_due");
        // A copy of the report changes nothing.
        assert_eq!(
            world.report(&draft, attempt, Verdict::Failed, at),
            Report::Old
        );
        let (next, retry) = world.live.next_attempt(&draft.id()).unwrap();
        assert_eq!(next, failed_at.plus_days(day));
        world.write("retry", "attempted", next, &retry);
        assert_eq!(world.live.next_attempt(&draft.id()), None, "it runs");
        at = next;
    }
    world.report(&draft, 5, Verdict::Failed, at);
    assert_eq!(world.live.next_attempt(&draft.id()), None);
    let grace = world.live.grace_end().unwrap();
    assert_eq!(grace, failed_at.plus_days(GRACE_DAYS));
    assert!(Subscription::is_entitled(world.state));
    world.write("end_grace", "ended", grace, &Moment { at: grace });
    assert!(!Subscription::is_entitled(world.state));
    // The money comes after all.
    world.report(&draft, 5, Verdict::Paid, grace);
    assert_eq!((world.state, world.live.grace_end()), ("active", None));
}

#[test]
fn of_two_invoices_that_are_owed_the_last_one_paid_ends_dunning() {
    let mut world = World::new(None);
    let drafts: Vec<Draft> = (0..3).map(|_| world.bill()).collect();
    world.report(&drafts[0], 1, Verdict::Paid, Time(1));
    world.report(&drafts[1], 1, Verdict::Paid, Time(1));
    world.report(&drafts[2], 1, Verdict::Paid, Time(1));
    assert_eq!(world.state, "active");
    let drafts: Vec<Draft> = (0..2).map(|_| world.bill()).collect();
    for draft in &drafts {
        world.report(draft, 1, Verdict::Failed, Time(2));
    }
    assert!(matches!(
        world.report(&drafts[1], 1, Verdict::Paid, Time(3)),
        Report::News("paid", _)
    ));
    assert_eq!(world.state, "past_due");
    assert!(matches!(
        world.report(&drafts[0], 1, Verdict::Paid, Time(3)),
        Report::News("settled", _)
    ));
    assert_eq!(world.state, "active");
}

#[test]
fn a_report_that_cannot_be_is_refused() {
    let mut world = World::new(None);
    let draft = world.bill();
    let result = |invoice: String, attempt, amount| PaymentResult {
        invoice,
        intent: "pi".into(),
        attempt,
        amount,
        verdict: Verdict::Paid,
        reason: None,
    };
    for wrong in [
        result(draft.id(), 1, euro(999)),
        result(draft.id(), 2, euro(1_000)),
        result(draft.id(), 0, euro(1_000)),
        result("in_sub_1_1".into(), 1, euro(1_000)),
        result("in_sub_2_0".into(), 1, euro(1_000)),
        result("in_sub_1_00".into(), 1, euro(1_000)),
    ] {
        let refused = world.live.report(ID, world.state, &wrong, Time(1));
        assert!(refused.is_err(), "{wrong:?}");
    }
}

#[test]
fn a_trial_costs_nothing_and_its_end_begins_the_first_period() {
    let end = Time(14 * DAY);
    let mut world = World::new(Some(end));
    assert_eq!(world.live.next_period(), Ok(None));
    let change = world
        .live
        .change("trialing", plan(2_000), Time(DAY))
        .unwrap();
    assert_eq!(change.lines, []);
    world.write("change", "changed", Time(DAY), &change);
    world.write("end_trial", "incomplete", end.plus(5), &Moment { at: end });
    let draft = world.bill();
    assert_eq!(draft.period.start, end);
    assert_eq!(draft.totals().unwrap().due, euro(2_000));
}

#[test]
fn a_subscription_that_ends_with_its_period_is_not_billed_for_the_next() {
    let mut world = World::new(None);
    let draft = world.bill();
    world.report(&draft, 1, Verdict::Paid, Time(1));
    let at = world.live.paid_until().unwrap();
    world.write("cancel", "scheduled", Time(2), &Moment { at });
    assert_eq!(world.live.next_period(), Ok(None));
    world.write("cancel", "unscheduled", Time(3), &());
    assert_eq!(world.live.next_period().unwrap().unwrap().number, 1);
}

#[test]
fn periods_without_service_are_skipped_and_none_is_billed_twice() {
    let mut world = World::new(None);
    let draft = world.bill();
    world.report(&draft, 1, Verdict::Paid, Time(1));
    world.write("pause", "paused", Time(2), &Moment { at: Time(2) });
    let skipped = world.live.next_period().unwrap().unwrap();
    world.write("advance", "skipped", skipped.start, &skipped);
    let at = skipped.start;
    world.write("resume", "resumed", at, &Moment { at });
    assert_eq!(world.bill().period.number, 2);
    let again = Invoiced { draft };
    let json = serde_json::to_string(&again).unwrap();
    let step = Step {
        action: "bill",
        outcome: "invoiced",
        at,
        json: &json,
    };
    assert!(world.live.validate(&step).is_err());
}

#[test]
fn a_plan_change_in_a_skipped_period_is_neither_billed_nor_credited() {
    let mut world = World::new(None);
    let draft = world.bill();
    world.report(&draft, 1, Verdict::Paid, Time(1));
    world.write("pause", "paused", Time(2), &Moment { at: Time(2) });
    let skipped = world.live.next_period().unwrap().unwrap();
    let at = skipped.start;
    world.write("advance", "skipped", at, &skipped);
    world.write("resume", "resumed", at, &Moment { at });
    for amount in [1, 5_000] {
        let change = world.live.change(world.state, plan(amount), at).unwrap();
        assert_eq!(change.lines, [], "{amount}");
    }
    let billed = world.bill().period;
    let change = world.live.change(world.state, plan(1), billed.start);
    assert_eq!(change.unwrap().lines.len(), 2);
}

#[test]
fn however_often_the_plan_is_changed_the_next_invoice_can_be_ordered() {
    let mut world = World::new(None);
    let draft = world.bill();
    world.report(&draft, 1, Verdict::Paid, Time(1));
    let id = |letter: &str| letter.repeat(120);
    let longest = |amount| Plan {
        price: id("p"),
        product: id("q"),
        quantity: MAX_QUANTITY,
        ..plan(amount)
    };
    let refused = (0..).find_map(|minute: i64| {
        let at = Time(minute * 60_000);
        match world.live.change(world.state, longest(1_000 + minute), at) {
            Ok(changed) => {
                world.write("change", "changed", at, &changed);
                None
            }
            Err(refused) => Some(refused.to_string()),
        }
    });
    // Two more fit, for an end of service and its beginning.
    assert!(refused.unwrap().contains("98 lines are pending"));
    let order = Collection {
        invoice: id("i"),
        attempt: 1,
        draft: Some(world.live.next_invoice(&id("s")).unwrap()),
        void: false,
        ask: false,
        credit: None,
    };
    let bytes = serde_json::to_vec(&order).unwrap().len();
    assert!(bytes <= MAX_METADATA_BYTES, "{bytes}");
}

#[test]
fn a_plan_in_another_currency_or_of_nothing_is_refused() {
    let mut world = World::new(None);
    world.bill();
    let mut dollars = plan(1);
    dollars.unit_amount = Money::new(1, "USD".parse().unwrap()).unwrap();
    let mut nothing = plan(1);
    nothing.quantity = 0;
    for wrong in [dollars, nothing] {
        assert!(world.live.change("active", wrong, Time(1)).is_err());
    }
}

proptest! {
    #[test]
    fn bills_equal_the_accruals_and_the_chain_replays_to_the_live_state(
        years in prop::collection::vec(prop::collection::vec((0_i64..1_000, 0_i64..100_000), 0..4), 1..40),
    ) {
        let mut world = World::new(None);
        let (mut billed, mut accrued, mut due) = (euro(0), euro(0), euro(0));
        for changes in years {
            let draft = world.bill();
            let period = draft.period;
            let totals = draft.totals().unwrap();
            world.report(&draft, 1, Verdict::Paid, period.start);
            due = due.plus(totals.due).unwrap();
            // Lines that are carried were counted where they came from.
            for line in draft.lines.all() {
                if line.kind != LineKind::Carried {
                    billed = billed.plus(line.amount).unwrap();
                }
            }
            prop_assert_eq!(totals.total, Money::sum(totals.total.currency(), draft.lines.all().iter().map(|line| line.amount)).unwrap());
            let mut changes = changes;
            changes.sort_unstable();
            let mut since = period.start;
            for (permille, amount) in changes {
                let at = Time(period.start.0 + (period.end.0 - period.start.0) / 1_000 * permille);
                let old = world.live.plan().unwrap().amount().unwrap();
                accrued = accrued.plus(proration::between(old, &period, since, at).unwrap()).unwrap();
                let changed = world.live.change(world.state, plan(amount), at).unwrap();
                world.write("change", "changed", at, &changed);
                since = at;
            }
            let last = world.live.plan().unwrap().amount().unwrap();
            accrued = accrued.plus(proration::between(last, &period, since, period.end).unwrap()).unwrap();
        }
        let waiting = Money::sum(billed.currency(), world.live.pending.iter().map(|line| line.amount)).unwrap();
        prop_assert_eq!(billed.plus(waiting).unwrap(), accrued);
        let left = world.live.carried.unwrap_or(euro(0));
        prop_assert_eq!(due.minus(left).unwrap(), billed);

        let mut replayed = Subscription::default();
        for (action, outcome, at, json) in &world.chain {
            replayed.apply(&Step { action, outcome, at: *at, json }).unwrap();
        }
        prop_assert_eq!(replayed, world.live);
    }
}
