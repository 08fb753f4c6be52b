//! What must hold in the end.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use abide::projection::ReadModel;
use abide::{Result, Value, storage::AlarmState};
use billing::{
    BillingError, Money, Period, Time,
    gateway::PaymentStatus,
    resource::{Event, Row, View},
    resources::{Customer, Invoice, PaymentIntent, Price, Product, Subscription},
    states::{self, Collected, Draft, Invoiced},
};
use futures_util::{StreamExt, stream};
use serde::de::DeserializeOwned;

use crate::decade::{
    life::{self, Life},
    world::World,
};

/// How late a period may be billed when the node has nothing else to do, in milliseconds.
const LATE: i64 = 60 * 60 * 1_000;

/// Outcomes that are asked for at a time.
const PAGE: usize = 500;

/// Subscriptions that are checked at a time.
const AT_A_TIME: usize = 8;

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
    rows: u64,
}

/// What is known while it is checked.
struct Checks<'a> {
    world: &'a World,
    /// What the gateway took, by intent.
    taken: BTreeMap<String, Money>,
    /// Those of them that an invoice knows of.
    counted: RefCell<BTreeSet<String>>,
    found: RefCell<Found>,
}

fn live<T: DeserializeOwned>(view: &View) -> T {
    serde_json::from_value(view.data.clone()).unwrap()
}

/// Every invariant, of a world that stands still.
pub(crate) async fn all(world: &World, life: &Life) -> Found {
    let failed = world.node().alarms(AlarmState::Failed, None, 10);
    assert!(failed.is_empty(), "no alarm was given up: {failed:?}");
    let mut taken = BTreeMap::new();
    for payment in world.gateway.payments() {
        if payment.status == PaymentStatus::Succeeded {
            let before = taken.insert(payment.reference.clone(), payment.amount);
            assert!(before.is_none(), "{} was paid twice", payment.reference);
        }
    }
    let checks = Checks {
        world,
        taken,
        counted: RefCell::default(),
        found: RefCell::default(),
    };
    let env = world.env();
    let product = env.object::<Product>().get_by_name(life::PRODUCT);
    checks.is_shown(product.get_row().await).await;
    for id in life::prices() {
        let price = env.object::<Price>().get_by_name(&id);
        checks.is_shown(price.get_row().await).await;
    }
    stream::iter(life.subscriptions())
        .for_each_concurrent(AT_A_TIME, async |id| checks.subscription(&id).await)
        .await;
    let counted = checks.counted.into_inner();
    let lost: Vec<_> = checks
        .taken
        .keys()
        .filter(|id| !counted.contains(*id))
        .collect();
    assert!(lost.is_empty(), "unrecorded money: {lost:?}");
    let mut found = checks.found.into_inner();
    assert!(found.billed > 0 && !checks.taken.is_empty());
    let rows = "SELECT count(*) AS many FROM resources";
    let rows = world.model.query(rows, vec![]).await.unwrap();
    assert_eq!(rows[0]["many"], found.rows, "rows of what is not there");
    found.deaths = world.deaths;
    found
}

impl Checks<'_> {
    /// The read model shows a resource as it is.
    async fn is_shown(&self, row: Result<Row, BillingError>) {
        let row = row.unwrap();
        let sql = "SELECT id, kind, state, seq, customer, subscription, amount, currency, attempts, failures, created_at, \
                   updated_at, created_month, changed_month, data FROM resources WHERE id = $1";
        let model: &dyn ReadModel = &self.world.model;
        let shown = model.rows(sql, vec![Value::Text(row.id.clone())]).await;
        let mut shown: Vec<Row> = shown.unwrap();
        let Some(mut shown) = shown.pop() else {
            panic!("the read model does not have {}", row.id);
        };
        shown.data = serde_json::from_str(shown.data.as_str().unwrap()).unwrap();
        assert_eq!(shown, row);
        self.count(|found| found.rows += 1);
    }

    /// A replay of a chain gives the live state.
    fn replays(&self, checked: Result<i64, BillingError>) -> i64 {
        let outcomes = checked.unwrap();
        self.count(|found| found.outcomes += outcomes);
        outcomes
    }

    fn count(&self, count: impl FnOnce(&mut Found)) {
        count(&mut self.found.borrow_mut());
    }

    /// What a chain has billed, and the period after it. Each period is billed once, or skipped once, in its order.
    fn billed(&self, id: &str, history: &[Event]) -> (Vec<Draft>, u32) {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut next = 0;
        for Event { entry, .. } in history {
            match (&*entry.action, &*entry.outcome) {
                ("bill", _) => {
                    let draft = entry.data::<Invoiced>().unwrap().draft;
                    assert_eq!(draft.period.number, next, "{id}");
                    next += 1;
                    self.count(|found| found.billed += 1);
                    drafts.push(draft);
                }
                ("advance", "skipped") => {
                    let period = entry.data::<Period>().unwrap();
                    // What waited is billed at the boundary, under the number of the period that is skipped.
                    let waited = drafts.last().is_some_and(|draft| draft.period == period);
                    assert_eq!(period.number + u32::from(waited), next, "{id}");
                    next = period.number + 1;
                    self.count(|found| found.skipped += 1);
                }
                ("change", _) => self.count(|found| found.changes += 1),
                _ => {}
            }
        }
        (drafts, next)
    }

    async fn subscription(&self, id: &str) {
        let env = self.world.env();
        let customer = env.object::<Customer>().get_by_name(&life::customer_of(id));
        self.replays(customer.check().await);
        self.is_shown(customer.get_row().await).await;
        let object = env.object::<Subscription>().get_by_name(id);
        let outcomes = self.replays(object.check().await);
        self.is_shown(object.get_row().await).await;
        let view = object.get_state().await.unwrap();
        let state: states::Subscription = live(&view);

        let timers = object.timers().await.unwrap();
        let broken: Vec<_> = timers
            .iter()
            .filter(|timer| timer.phase == abide::schedule::Phase::Failed)
            .collect();
        assert!(broken.is_empty(), "{id}: {broken:?}");

        // None that has begun is left out.
        let history = history(self.world, id).await;
        let (drafts, next) = self.billed(id, &history);
        self.count(|found| {
            found.longest_chain = found.longest_chain.max(outcomes);
            *found.subscriptions.entry(view.state.clone()).or_default() += 1;
        });
        assert_eq!(next, state.next, "{id}");
        if let Some(period) = state.next_period().unwrap()
            && !matches!(&*view.state, "canceled" | "incomplete_expired")
        {
            assert!(
                period.start > Time(self.world.now() - LATE),
                "{id} {}: {period:?} is not billed",
                view.state
            );
        }

        credit_goes_on(id, &history);
        let mut owed = BTreeSet::new();
        for draft in &drafts {
            if self.invoice(draft).await {
                owed.insert(draft.id());
            }
        }
        let known: BTreeSet<_> = state.owed.keys().cloned().collect();
        assert_eq!(known, owed, "{id}: what it believes to be owed");
    }

    /// Checks an invoice; whether it is owed.
    async fn invoice(&self, draft: &Draft) -> bool {
        let id = draft.id();
        let env = self.world.env();
        let object = env.object::<Invoice>().get_by_name(&id);
        let view = object.get_state().await.unwrap();
        self.replays(object.check().await);
        self.is_shown(object.get_row().await).await;
        let state: states::Invoice = live(&view);
        assert_eq!(state.draft.as_ref(), Some(draft), "{id}");
        let due = draft.totals().unwrap().due;
        assert_eq!(state.due, Some(due), "{id}");
        let mut paid = Vec::new();
        for attempt in 1..=state.attempts {
            let intent = states::Invoice::intent(&id, attempt);
            let object = env.object::<PaymentIntent>().get_by_name(&intent);
            let view = object.get_state().await.unwrap();
            self.replays(object.check().await);
            self.is_shown(object.get_row().await).await;
            self.count(|found| *found.payments.entry(view.state.clone()).or_default() += 1);
            let money = self.taken.get(&intent);
            assert_eq!(
                view.state == "succeeded",
                money.is_some(),
                "{intent} {}",
                view.state
            );
            if let Some(money) = money {
                assert_eq!(*money, due, "{intent}");
                self.counted.borrow_mut().insert(intent.clone());
                paid.push(intent);
            }
        }
        self.count(|found| *found.invoices.entry(view.state.clone()).or_default() += 1);
        if view.state == "paid" && !due.is_zero() {
            assert_eq!(paid.len(), 1, "{id} is paid by {paid:?}");
            assert_eq!(state.paid_by, paid.pop(), "{id}");
            self.count(|found| found.paid += due.amount());
        } else {
            assert!(
                paid.is_empty(),
                "{id} is {} and paid by {paid:?}",
                view.state
            );
        }
        view.state == "open"
    }
}

async fn history(world: &World, id: &str) -> Vec<Event> {
    let object = world.env().object::<Subscription>().get_by_name(id);
    let mut all: Vec<Event> = Vec::new();
    loop {
        let after = all.last().map_or(0, |event| event.entry.seq);
        let page = object.get_history(after, PAGE).await.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// Credit goes from each invoice to the next, whole; and so does what a voided one had used of it.
fn credit_goes_on(id: &str, history: &[Event]) {
    let mut left: Option<Money> = None;
    for Event { entry, .. } in history {
        match &*entry.action {
            "bill" => {
                let draft = entry.data::<Invoiced>().unwrap().draft;
                let lines = draft.lines.all().iter();
                let mut carried = lines.filter(|line| line.kind == billing::LineKind::Carried);
                let carried = carried.next().map(|line| line.amount.negated());
                assert_eq!(carried, left, "{id}");
                left = Some(draft.totals().unwrap().left).filter(|left| !left.is_zero());
            }
            "collect" => {
                if let Some(returned) = entry.data::<Collected>().unwrap().returned {
                    left = Some(left.map_or(returned, |left| left.plus(returned).unwrap()));
                }
            }
            _ => {}
        }
    }
}
