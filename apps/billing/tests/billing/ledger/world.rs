//! A node with one subscription, its bank, and time that jumps from one thing to the next; and next to it the model.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide::schedule::{Phase, Timer};
use abide::{
    Activation, Bookmark, ErrorKind, Node, Stub,
    clock::{Clock, TestClock},
    storage::{AlarmState, ArchiveOptions, SimDisk, Store, StoreOptions},
};
use billing::{
    BillingError, Money, Time,
    clock::AnyPayments,
    resource::View,
    resources::{
        Customer, Invoice, NewCreditNote, NewSubscription, Price, Product, Subscription, register,
    },
    states::{self, CreditEffect, CreditNote, Credited, Draft, RefundTo},
};
use serde_json::json;

use crate::ledger::{
    bank::{Bank, Line},
    calendar::{DAY, Length},
    compare,
    life::{Call, Card, Death, Life, PRICES, Refund, Step},
    model::Model,
};

pub(crate) const SUBSCRIPTION: &str = "sub_1";
const CUSTOMER: &str = "cus_ada";
const PRODUCT: &str = "prod_tea";

/// So often one looks whether something still happens.
const PATIENCE: usize = 20_000;

/// Between two looks.
const LOOK: Duration = Duration::from_micros(200);

/// So often one looks at a disk that does not change, before it is believed to stand still.
const STILL_LOOKS: u32 = 60;

/// So long the last things take, with all payments that are on their way.
const LAST_DAYS: i64 = 40 * DAY;

/// Longer than a life: each step of it can be restored.
const HISTORY: Duration = Duration::from_hours(100 * 366 * 24);

pub(crate) struct World {
    disk: SimDisk,
    clock: TestClock,
    node: Node,
    is_alive: Arc<AtomicBool>,
    bank: Bank,
    /// Credit notes and refunds that were asked for.
    asked: u32,
    pub(crate) model: Model,
    /// What the subscription was after each step.
    points: Vec<(Bookmark, Model)>,
    /// What undoes the last restore.
    undo: Option<(Bookmark, Model)>,
    /// Copies of the subscription.
    copied: u32,
}

/// Lives a life, and compares.
pub(crate) async fn lives(life: &Life) -> Result<(), String> {
    let mut world = World::begin(life).await;
    world
        .rests()
        .await
        .map_err(|error| format!("at the beginning: {error}"))?;
    for (number, step) in life.steps.iter().enumerate() {
        world = world
            .step(*step)
            .await
            .map_err(|error| format!("step {} ({step}): {error}", number + 1))?;
    }
    world
        .passes(LAST_DAYS)
        .await
        .map_err(|error| format!("in the end: {error}"))?;
    compare::all(&world)
        .await
        .map_err(|error| format!("in the end: {error}"))
}

fn copy(number: u32) -> String {
    format!("sub_copy_{number}")
}

fn euro(amount: i64) -> Money {
    Money::new(amount, "EUR".parse().unwrap()).unwrap()
}

/// Requests here are always valid.
fn refused() -> BillingError {
    BillingError::Refused(states::Refusal::Invalid(
        "there is nothing of it".to_owned(),
    ))
}

fn created<T>(made: Result<T, BillingError>) {
    made.unwrap();
}

impl World {
    async fn begin(life: &Life) -> Self {
        let clock = TestClock::new();
        clock.advance(Duration::from_millis(life.begins.try_into().unwrap()));
        let bank = Bank::new(life.seed, &clock);
        let now = Time::now(&clock).0;
        let disk = SimDisk::new();
        let is_alive = Arc::new(AtomicBool::new(true));
        let world = Self {
            node: node(&disk, &clock, &bank, &is_alive),
            is_alive,
            model: Model::new(now, life.price, life.quantity, life.trial_days),
            disk,
            clock,
            bank,
            asked: 0,
            points: Vec::new(),
            undo: None,
            copied: 0,
        };
        let env = world.node.env();
        let (create, outcome) = ("create".to_owned(), "created".to_owned());
        let product = env.object::<Product>().get_by_name(PRODUCT);
        created(
            product
                .transition(create.clone(), outcome.clone(), json!({"name": "Tea"}))
                .await,
        );
        for price in &PRICES {
            let every = match price.length {
                Length::Days(count) => json!({"count": count, "unit": "day"}),
                Length::Months(count) => json!({"count": count, "unit": "month"}),
            };
            let terms = json!({
                "product": PRODUCT, "unit_amount": {"amount": price.amount, "currency": "EUR"}, "every": every
            });
            let object = env.object::<Price>().get_by_name(price.id);
            created(
                object
                    .transition(create.clone(), outcome.clone(), terms)
                    .await,
            );
        }
        let ada =
            json!({"name": "Ada", "email": "ada@example.com", "payment_method": life.card.id()});
        let customer = env.object::<Customer>().get_by_name(CUSTOMER);
        created(customer.transition(create, outcome, ada).await);
        let new = NewSubscription {
            customer: CUSTOMER.to_owned(),
            price: PRICES[life.price].id.to_owned(),
            quantity: life.quantity,
            trial_days: life.trial_days,
        };
        created(world.subscription().create(new).await);
        world
    }

    pub(crate) fn subscription(&self) -> Stub<Subscription> {
        self.node
            .env()
            .object::<Subscription>()
            .get_by_name(SUBSCRIPTION)
    }

    pub(crate) fn invoice(&self, number: u32) -> Stub<Invoice> {
        let id = Draft::id_of(SUBSCRIPTION, number);
        self.node.env().object::<Invoice>().get_by_name(&id)
    }

    fn now(&self) -> i64 {
        Time::now(&self.clock).0
    }

    /// The timers that will go off, or have failed.
    pub(crate) async fn timers(&self) -> Result<Vec<Timer>, String> {
        let timers = self.subscription().timers().await;
        let mut timers = timers.map_err(|error| error.to_string())?;
        timers.retain(|timer| timer.ended_at.is_none());
        Ok(timers)
    }

    async fn step(mut self, step: Step) -> Result<Self, String> {
        match step {
            Step::Passes(time) => self.passes(time).await?,
            Step::ToBoundary(after) => {
                if let Some(boundary) = self.model.boundary() {
                    self.passes(boundary + after - self.now()).await?;
                }
            }
            Step::ToQuarter(quarters) => {
                if let Some(quarter) = self.model.quarter(quarters) {
                    self.passes(quarter - self.now()).await?;
                }
            }
            Step::Jumps(time) => {
                self.advance(time);
                self.rests().await?;
            }
            Step::SetBack(time) => {
                self.clock.set_wall(-time);
                self.rests().await?;
            }
            Step::Dies(death, is_midst, away) => {
                if is_midst {
                    self.advance(self.next());
                    for _ in 0..away % 40 {
                        tokio::task::yield_now().await;
                    }
                }
                let midst = self.now();
                self.dies(death);
                self.advance(away);
                self.is_asked().await?;
                // The end of a trial may have been written before the death.
                if is_midst && self.live().await?.waits_since == Some(Time(midst)) {
                    self.model.looked_at(midst);
                }
                self.rests().await?;
            }
            Step::BankIsAway(time) => self.bank.is_away(time),
            Step::Card(card) => self.set_card(card).await,
            Step::Replaces(card, back) => {
                let was = self.card().await?;
                self.set_card(card).await;
                if let Some((number, attempt)) = self.model.waits_for_customer(back)
                    && was != card.id()
                {
                    let invoice = Draft::id_of(SUBSCRIPTION, number);
                    self.bank
                        .replaces(&states::Invoice::intent(&invoice, attempt));
                }
                self.rests().await?;
            }
            Step::Calls(call) => {
                self.asked += 1;
                let taken = self.calls(call).await?;
                self.has_called(call, taken)?;
                self.rests().await?;
            }
            Step::Restores(back) => {
                let at = self.points.len().checked_sub(back as usize);
                if let Some(at) = at {
                    self.restores(self.points[at].clone()).await?;
                }
            }
            Step::Undoes => {
                if let Some(undo) = self.undo.take() {
                    self.restores(undo).await?;
                }
            }
            Step::Forks(continues) => self.forks(continues).await?,
            Step::DiesIn(call, syncs, death) => {
                self.asked += 1;
                self.dies_in(call, syncs, death).await?;
                self.rests().await?;
            }
        }
        compare::all(&self).await?;
        let now = self.bookmark().await?;
        self.points.push((now, self.model.clone()));
        Ok(self)
    }

    async fn bookmark(&self) -> Result<Bookmark, String> {
        let subscription = self.subscription();
        let now = self.node.bookmark(subscription.untyped(), None).await;
        now.map_err(|error| error.to_string())
    }

    /// The subscription is restored, and not what it has told others.
    async fn restores(&mut self, (to, then): (Bookmark, Model)) -> Result<(), String> {
        self.rests().await?;
        self.creates_invoices().await?;
        let subscription = self.subscription();
        let undo = self.node.restore(subscription.untyped(), to).await;
        let undo = undo.map_err(|error| error.to_string())?;
        self.undo = Some((undo, self.model.clone()));
        let now = self.now();
        self.model.restored(&then, now);
        self.rests().await
    }

    /// Waits until each invoice of the model exists. After a death one may wait for the next attempt to create it, and
    /// a restore would undo it unseen.
    async fn creates_invoices(&mut self) -> Result<(), String> {
        let numbers: Vec<u32> = self.model.invoices.keys().copied().collect();
        for number in numbers {
            let mut looks = 0;
            while let Err(BillingError::NotFound { .. }) = self.invoice(number).get_state().await {
                looks += 1;
                if looks > PATIENCE {
                    return Err(format!("invoice {number} is never created"));
                }
                self.advance(self.next());
                self.rests().await?;
            }
        }
        Ok(())
    }

    async fn forks(&mut self, continues: bool) -> Result<(), String> {
        let now = self.bookmark().await?;
        self.copied += 1;
        let subscription = self.subscription();
        let name = copy(self.copied);
        let fork = self.node.fork(subscription.untyped(), now, &name).await;
        fork.map_err(|error| error.to_string())?;
        let how = if continues {
            Activation::Continue
        } else {
            Activation::Fresh
        };
        let subscriptions = self.node.env().object::<Subscription>();
        let copy = subscriptions.get_by_name(&name);
        let activated = self.node.activate(copy.untyped(), how).await;
        activated.map_err(|error| error.to_string())?;
        self.rests().await
    }

    pub(crate) fn copies(&self) -> Vec<Stub<Subscription>> {
        let subscriptions = self.node.env().object::<Subscription>();
        (1..=self.copied)
            .map(|number| subscriptions.get_by_name(&copy(number)))
            .collect()
    }

    async fn set_card(&self, card: Card) {
        let customer = self.node.env().object::<Customer>().get_by_name(CUSTOMER);
        let (set, card) = (
            ("set_payment_method".to_owned(), "set".to_owned()),
            json!({"payment_method": card.id()}),
        );
        created(customer.transition(set.0, set.1, card).await);
    }

    /// What the engine knows of the subscription.
    async fn live(&self) -> Result<states::Subscription, String> {
        let view = self.subscription().get_state().await;
        let view = view.map_err(|error| error.to_string())?;
        serde_json::from_value(view.data).map_err(|error| error.to_string())
    }

    async fn card(&self) -> Result<String, String> {
        let customer = self.node.env().object::<Customer>().get_by_name(CUSTOMER);
        let view = customer
            .get_state()
            .await
            .map_err(|error| error.to_string())?;
        let live: states::Customer =
            serde_json::from_value(view.data).map_err(|error| error.to_string())?;
        Ok(live.payment_method.unwrap_or_default())
    }

    /// Has this much of what is owed taken off an invoice.
    async fn reduces(&self, back: u32, part: i64) -> Result<View, BillingError> {
        let number = self.model.number(back);
        let amount = self.model.reduction(number, part);
        let (Some(number), Some(amount)) = (number, amount) else {
            return Err(refused());
        };
        let note = NewCreditNote {
            id: format!("cn_{}", self.asked),
            amount: Some(euro(amount)),
            to: RefundTo::Card,
            reason: None,
        };
        self.invoice(number).credit(note).await
    }

    /// Does what a refund does: its money is at the bank, or is credit, and both are reported.
    async fn refunds(&self, back: u32, part: i64, refund: Refund) -> Result<View, BillingError> {
        let number = self.model.number(back);
        let amount = self.model.refundable(number, part);
        let (Some(number), Some(amount)) = (number, amount) else {
            return Err(refused());
        };
        let credited = Credited {
            id: format!("re_{}", self.asked),
            invoice: Draft::id_of(SUBSCRIPTION, number),
            amount: euro(amount),
            reason: None,
        };
        let note = CreditNote {
            id: format!("cn_{}", self.asked),
            amount: euro(amount),
            effect: CreditEffect::Refunded,
            refund: Some(credited.id.clone()),
            reason: None,
        };
        let invoice = self.invoice(number);
        if refund.is_note {
            match invoice.take_note(note.clone()).await {
                Ok(_) => {}
                refused => return refused,
            }
        }
        if !refund.to_balance {
            return self.subscription().returned(credited).await;
        }
        let granted = self.subscription().grant(credited).await;
        if granted.is_err() && refund.is_note {
            created(invoice.withdraw_note(note.id).await);
        }
        granted
    }

    /// Asks for something. Whether it was taken; none if it could not be asked.
    async fn calls(&self, call: Call) -> Result<Option<bool>, String> {
        let subscription = self.subscription();
        let invoice = |back| self.model.number(back).map(|number| self.invoice(number));
        let asked: Result<View, BillingError> = match call {
            Call::Pause => subscription.pause().await,
            Call::Resume => subscription.resume().await,
            Call::Change(price, quantity) => {
                subscription
                    .change(PRICES[price].id.to_owned(), quantity)
                    .await
            }
            Call::CancelNow => subscription.cancel(false).await,
            Call::CancelAtEnd => subscription.cancel(true).await,
            Call::Keep => subscription.keep().await,
            Call::Void(back) => match invoice(back) {
                Some(invoice) => invoice.void().await,
                None => return Ok(Some(false)),
            },
            Call::GiveUp(back) => match invoice(back) {
                Some(invoice) => invoice.give_up().await,
                None => return Ok(Some(false)),
            },
            Call::Pay(back) => match invoice(back) {
                Some(invoice) => invoice.pay().await,
                None => return Ok(Some(false)),
            },
            Call::Reduce(back, part) => self.reduces(back, part).await,
            Call::Refund(back, part, refund) => self.refunds(back, part, refund).await,
        };
        match asked {
            Ok(_) => Ok(Some(true)),
            Err(BillingError::Outcome(_) | BillingError::Refused(_)) => Ok(Some(false)),
            // After a death it may take a moment until the invoice is created.
            Err(BillingError::NotFound { kind, .. }) if kind == "invoice" => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn has_called(&mut self, call: Call, taken: Option<bool>) -> Result<(), String> {
        let Some(taken) = taken else { return Ok(()) };
        let now = self.now();
        let wanted = self.model.call(call, now);
        if taken == wanted {
            return Ok(());
        }
        let what = |taken| if taken { "takes" } else { "refuses" };
        Err(format!(
            "the engine {} it, the model {} it",
            what(taken),
            what(wanted)
        ))
    }

    /// The node dies in a call. The caller looks whether it was done, and repeats what may be repeated.
    async fn dies_in(&mut self, call: Call, syncs: u64, death: Death) -> Result<(), String> {
        let before = self.outcomes(0).await?.len();
        self.disk.hold_syncs();
        self.disk.allow_syncs(syncs);
        let answer = tokio::select! {
            answer = self.calls(call) => Some(answer?),
            () = self.stands_still() => None,
        };
        self.dies(death);
        self.is_asked().await?;
        let taken = match (answer, call) {
            (Some(taken), _) => taken,
            (
                None,
                Call::Void(_)
                | Call::GiveUp(_)
                | Call::Pay(_)
                | Call::Reduce(..)
                | Call::Refund(..),
            ) => self.calls(call).await?,
            (None, _) => {
                let wanted = match call {
                    Call::Pause => ("pause", "paused"),
                    Call::Resume => ("resume", "resumed"),
                    Call::Change(..) => ("change", "changed"),
                    Call::CancelNow => ("cancel", "canceled"),
                    Call::CancelAtEnd => ("cancel", "scheduled"),
                    _ => ("cancel", "unscheduled"),
                };
                let after = self.outcomes(before).await?;
                let is_wanted = |(action, outcome): &(String, String)| {
                    action == wanted.0 && (outcome == wanted.1 || outcome == "owing")
                };
                self.model.looked_at(self.now());
                let is_done = after.iter().any(is_wanted) && !self.model.phase.is_over();
                if !is_done {
                    return Ok(());
                }
                Some(true)
            }
        };
        self.has_called(call, taken)
    }

    /// What the chain has after this many outcomes.
    async fn outcomes(&self, after: usize) -> Result<Vec<(String, String)>, String> {
        let mut all = Vec::new();
        let mut seq = 0;
        loop {
            let page = self.subscription().get_history(seq, 500).await;
            let page = page.map_err(|error| error.to_string())?;
            let Some(last) = page.last() else {
                return Ok(all.split_off(after.min(all.len())));
            };
            seq = last.entry.seq;
            all.extend(
                page.into_iter()
                    .map(|event| (event.entry.action, event.entry.outcome)),
            );
        }
    }

    async fn stands_still(&self) {
        let (mut still, mut before) = (0, self.disk.changes());
        while still < STILL_LOOKS {
            tokio::time::sleep(LOOK).await;
            let changes = self.disk.changes();
            still = if changes == before { still + 1 } else { 0 };
            before = changes;
        }
    }

    /// Another node, on what this one leaves.
    fn dies(&mut self, death: Death) {
        self.is_alive.store(false, Ordering::SeqCst);
        let disk = match death {
            Death::Kill => self.disk.after_kill(),
            Death::Power(seed) => self.disk.crash(seed),
        };
        self.disk.release_syncs();
        self.is_alive = Arc::new(AtomicBool::new(true));
        self.node = node(&disk, &self.clock, &self.bank, &self.is_alive);
        self.disk = disk;
    }

    /// Makes a request that changes nothing, so that what is overdue is made good at this very moment.
    async fn is_asked(&self) -> Result<(), String> {
        let mut rest = Rest::default();
        for _ in 0..PATIENCE {
            let asked = self.subscription().give_up("none".to_owned()).await;
            // A restored subscription waits for its invoices.
            let waits = matches!(&asked, Err(BillingError::Object(error)) if error.kind() == ErrorKind::Unavailable);
            if !waits {
                return Ok(());
            }
            if let Some(left) = rest.waits_for_an_attempt(self) {
                self.advance(left);
            }
            tokio::time::sleep(LOOK).await;
        }
        Err("it asks its invoices forever".to_owned())
    }

    fn advance(&self, by: i64) {
        self.clock
            .advance(Duration::from_millis(by.max(0).try_into().unwrap()));
    }

    /// How long it takes to the next alarm.
    fn alarm(&self) -> Option<i64> {
        let alarms = self.node.alarms(AlarmState::Pending, None, 1);
        let first = alarms.first()?;
        Some(first.due.unix_millis() - self.now())
    }

    /// How long nothing happens.
    fn next(&self) -> i64 {
        let report = self.bank.next().map(|at| {
            let left = at.saturating_sub(self.clock.now());
            i64::try_from(left.as_millis()).unwrap()
        });
        self.alarm()
            .into_iter()
            .chain(report)
            .min()
            .unwrap_or(DAY)
            .clamp(1, 40 * DAY)
    }

    /// Lets time pass, from one thing to the next, with all that follows from it.
    async fn passes(&mut self, time: i64) -> Result<(), String> {
        let end = self.clock.now() + Duration::from_millis(time.max(0).try_into().unwrap());
        self.rests().await?;
        while let Some(left) = end
            .checked_sub(self.clock.now())
            .filter(|left| !left.is_zero())
        {
            self.advance(self.next().min(left.as_millis().try_into().unwrap()));
            self.rests().await?;
            compare::state(self).await?;
        }
        Ok(())
    }

    /// Lets everything happen that can without the clock moving.
    async fn rests(&mut self) -> Result<(), String> {
        let mut rest = Rest::default();
        for _ in 0..PATIENCE {
            let timers = self.timers().await?;
            let left = rest.waits_for_an_attempt(self);
            if self.asks().await? {
                // Its invoices are asked in that attempt.
                left.inspect(|left| self.advance(*left));
                tokio::time::sleep(LOOK).await;
                continue;
            }
            if timers.iter().any(|timer| self.goes_off(timer)) {
                if left.is_none() {
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                // The caller does not wait for that attempt.
                self.is_asked().await?;
            }
            let now = self.now();
            self.model.looked_at(now);
            for intent in self.bank.begun() {
                let number = Draft::number_of(SUBSCRIPTION, &intent.invoice);
                let number = number.ok_or_else(|| format!("{} is no invoice", intent.invoice))?;
                self.model
                    .begun(number, intent.attempt, intent.amount.amount())?;
            }
            let Some((report, intent)) = self.bank.report() else {
                return Ok(());
            };
            let number = Draft::number_of(SUBSCRIPTION, &intent.invoice).unwrap();
            if self.model.is_too_late(number, intent.attempt) {
                self.bank.forgets(&report);
                continue;
            }
            self.bank.tell(self.node.env(), &report, &intent).await?;
            let amount = intent.amount.amount();
            self.model
                .hears(number, intent.attempt, amount, report.fate, now);
        }
        Err("something happens forever".to_owned())
    }

    /// Whether the subscription waits for what its invoices say.
    async fn asks(&self) -> Result<bool, String> {
        Ok(!self.live().await?.asks.is_empty())
    }

    /// Whether a timer goes off, or is about to.
    fn goes_off(&self, timer: &Timer) -> bool {
        let now = self.now();
        match &timer.run {
            Some(run) if run.phase == Phase::Retrying => run.fire_at.is_some_and(|at| at <= now),
            Some(run) => run.phase == Phase::Running,
            None => timer.due_at.is_some_and(|at| at <= now),
        }
    }
}

/// Looks at a world in which nothing happens.
#[derive(Default)]
struct Rest {
    still: u32,
    changes: u64,
}

impl Rest {
    /// How long it takes to the next attempt of an alarm, if nothing happens before. A death in the middle of an attempt
    /// leaves an alarm that waits for the next one.
    fn waits_for_an_attempt(&mut self, world: &World) -> Option<i64> {
        let changes = world.disk.changes();
        let is_still = changes == self.changes;
        self.still = if is_still { self.still + 1 } else { 0 };
        self.changes = changes;
        world
            .alarm()
            .filter(|left| self.still > STILL_LOOKS && *left > 0)
    }
}

fn node(disk: &SimDisk, clock: &TestClock, bank: &Bank, is_alive: &Arc<AtomicBool>) -> Node {
    let line = Line {
        bank: bank.clone(),
        is_alive: Arc::clone(is_alive),
    };
    let time = clock.clone();
    let options = StoreOptions::small()
        .archive(ArchiveOptions::default().retention(HISTORY))
        .unix_millis(Arc::new(move || time.unix_millis()));
    let store = Store::open(Arc::new(disk.clone()), Path::new("/data"), options).unwrap();
    register(Node::builder(store))
        .with(AnyPayments::new(bank.clone()))
        .outbound(Arc::new(line))
        .clock(Arc::new(clock.clone()))
        .workers(1)
        .start()
        .unwrap()
}
