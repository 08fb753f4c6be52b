//! What must hold in the end.

use std::collections::{BTreeMap, BTreeSet};

use abide::AlarmState;
use billing::{
    Money, Time,
    gateway::PaymentStatus,
    resource::{Event, View},
    resources::{Invoice, PaymentIntent, Subscription},
    states::{self, Draft, Invoiced},
};
use serde::de::DeserializeOwned;

use crate::{life::Life, world::World};

/// How late a period may be billed when the node has nothing else to do, in milliseconds.
const LATE: i64 = 60 * 60 * 1_000;

/// Outcomes that are asked for at a time.
const PAGE: usize = 500;

/// What there was to check.
#[allow(dead_code, reason = "it is printed")]
#[derive(Debug, Default)]
pub(crate) struct Found {
    deaths: u32,
    outcomes: i64,
    longest_chain: i64,
    billed: u64,
    skipped: u64,
    changes: u64,
    invoices: BTreeMap<String, u64>,
    payments: BTreeMap<String, u64>,
    subscriptions: BTreeMap<String, u64>,
    paid: i64,
}

fn live<T: DeserializeOwned>(view: &View) -> T {
    serde_json::from_value(view.data.clone()).unwrap()
}

/// Every invariant.
pub(crate) async fn all(world: &World, life: &Life) -> Found {
    let failed = world.node().alarms(AlarmState::Failed, None, 10);
    assert!(failed.is_empty(), "no alarm was given up: {failed:?}");
    let mut found = Found {
        deaths: world.deaths,
        ..Found::default()
    };
    // What the gateway took, by intent.
    let mut taken: BTreeMap<String, Money> = BTreeMap::new();
    for payment in world.gateway.payments() {
        if payment.status == PaymentStatus::Succeeded {
            let before = taken.insert(payment.reference.clone(), payment.amount);
            assert!(before.is_none(), "{} was paid twice", payment.reference);
        }
    }
    let mut counted = BTreeSet::new();
    for id in &life.subscriptions {
        one(world, id, &taken, &mut counted, &mut found).await;
    }
    let lost: Vec<_> = taken.keys().filter(|id| !counted.contains(*id)).collect();
    assert!(lost.is_empty(), "money that nobody knows of: {lost:?}");
    assert!(found.billed > 0 && !taken.is_empty());
    found
}

async fn one(
    world: &World,
    id: &str,
    taken: &BTreeMap<String, Money>,
    counted: &mut BTreeSet<String>,
    found: &mut Found,
) {
    let object = world.env().object::<Subscription>().get_by_name(id);
    let outcomes = object.check().await.unwrap().unwrap();
    found.outcomes += outcomes;
    found.longest_chain = found.longest_chain.max(outcomes);
    let view = object.get_state().await.unwrap().unwrap();
    *found.subscriptions.entry(view.state.clone()).or_default() += 1;
    let state: states::Subscription = live(&view);

    let timers = object.timers().await.unwrap().unwrap();
    let broken: Vec<_> = timers
        .iter()
        .filter(|timer| timer.phase == abide_patterns::schedule::Phase::Failed)
        .collect();
    assert!(broken.is_empty(), "{id}: {broken:?}");

    // Each period is billed once, or skipped once, in its order, and none that has begun is left out.
    let history = history(world, id).await;
    let mut drafts: Vec<Draft> = Vec::new();
    let mut next = 0;
    for Event { entry, .. } in &history {
        match (&*entry.action, &*entry.outcome) {
            ("bill", _) => {
                let draft = entry.data::<Invoiced>().unwrap().draft;
                assert_eq!(draft.period.number, next, "{id}");
                next += 1;
                found.billed += 1;
                drafts.push(draft);
            }
            ("advance", "skipped") => {
                next += 1;
                found.skipped += 1;
            }
            ("change", _) => found.changes += 1,
            _ => {}
        }
    }
    assert_eq!(next, state.next, "{id}");
    if let Some(period) = state.next_period().unwrap()
        && !matches!(&*view.state, "canceled" | "incomplete_expired")
    {
        assert!(
            period.start > Time(world.now() - LATE),
            "{id} {}: {period:?} is not billed",
            view.state
        );
    }

    // Credit goes from each invoice to the next, whole.
    let mut left = None;
    for draft in &drafts {
        let carried = draft
            .lines
            .all()
            .iter()
            .find(|line| line.kind == billing::LineKind::Carried)
            .map(|line| line.amount.negated());
        assert_eq!(carried, left, "{id}");
        left = Some(draft.totals().unwrap().left).filter(|left| !left.is_zero());
    }

    let mut owed = BTreeSet::new();
    for draft in &drafts {
        if invoice(world, draft, taken, counted, found).await {
            owed.insert(draft.id());
        }
    }
    let known: BTreeSet<_> = state.owed.keys().cloned().collect();
    assert_eq!(known, owed, "{id}: what it believes to be owed");
}

/// Checks an invoice; whether it is owed.
async fn invoice(
    world: &World,
    draft: &Draft,
    taken: &BTreeMap<String, Money>,
    counted: &mut BTreeSet<String>,
    found: &mut Found,
) -> bool {
    let id = draft.id();
    let object = world.env().object::<Invoice>().get_by_name(&id);
    let view = object.get_state().await.unwrap().unwrap();
    found.outcomes += object.check().await.unwrap().unwrap();
    *found.invoices.entry(view.state.clone()).or_default() += 1;
    let state: states::Invoice = live(&view);
    assert_eq!(state.draft.as_ref(), Some(draft), "{id}");
    let due = draft.totals().unwrap().due;
    assert_eq!(state.due, Some(due), "{id}");
    let mut paid = Vec::new();
    for attempt in 1..=state.attempts {
        let intent = states::Invoice::intent(&id, attempt);
        let object = world.env().object::<PaymentIntent>().get_by_name(&intent);
        let view = object.get_state().await.unwrap().unwrap();
        found.outcomes += object.check().await.unwrap().unwrap();
        *found.payments.entry(view.state.clone()).or_default() += 1;
        let money = taken.get(&intent);
        assert_eq!(
            view.state == "succeeded",
            money.is_some(),
            "{intent} {}",
            view.state
        );
        if let Some(money) = money {
            assert_eq!(*money, due, "{intent}");
            counted.insert(intent.clone());
            paid.push(intent);
        }
    }
    if view.state == "paid" && !due.is_zero() {
        assert_eq!(paid.len(), 1, "{id} is paid by {paid:?}");
        assert_eq!(state.paid_by, paid.pop(), "{id}");
        found.paid += due.amount();
    } else {
        assert!(
            paid.is_empty(),
            "{id} is {} and paid by {paid:?}",
            view.state
        );
    }
    view.state == "open"
}

async fn history(world: &World, id: &str) -> Vec<Event> {
    let object = world.env().object::<Subscription>().get_by_name(id);
    let mut all: Vec<Event> = Vec::new();
    loop {
        let after = all.last().map_or(0, |event| event.entry.seq);
        let page = object.get_history(after, PAGE).await.unwrap().unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}
