//! A node with one subscription, its bank, and time that jumps from one thing to the next; and next to it the model.

mod calls;
mod deaths;
mod restores;
mod time;

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use abide::schedule::Timer;
use abide::{
    Bookmark, Node, Stub,
    clock::{Clock, TestClock},
    storage::{ArchiveOptions, SimDisk, Store, StoreOptions},
};
use billing::{
    BillingError, Money, Time,
    clock::AnyPayments,
    resources::{Customer, Invoice, NewSubscription, Price, Product, Subscription, register},
    states::{self, Draft},
};
use serde_json::json;

use crate::ledger::{
    bank::{Bank, Line},
    calendar::{DAY, Length},
    compare,
    life::{Life, PRICES, Step},
    model::Model,
};

pub(crate) const SUBSCRIPTION: &str = "sub_1";
const CUSTOMER: &str = "cus_ada";
const PRODUCT: &str = "prod_tea";

/// So often one looks whether something still happens.
const PATIENCE: usize = 20_000;

/// Between two looks.
const LOOK: Duration = Duration::from_micros(200);

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
