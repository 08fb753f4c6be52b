//! What customers do, and how the gateway's webhooks arrive.

use std::{collections::BTreeSet, iter::repeat_n};

use abide_harness::{Random, setting};
use billing::{
    BillingError, Every, Money, Unit,
    gateway::{GatewayEvent, PaymentStatus},
    payment,
    resource::View,
    resources::{Customer, Invoice, NewSubscription, Price, Product, Subscription},
    states::{
        self, Attempt, NewCustomer, NewPrice, NewProduct, PaymentResult, SetPaymentMethod, Verdict,
    },
};
use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::decade::{STEPS_A_DAY, world::World};

/// Acts of each subscription in a year, on average.
const ACTS_A_YEAR: u64 = 6;

/// Steps of a year.
const STEPS_A_YEAR: u64 = 365 * STEPS_A_DAY;

/// Steps until all customers have subscribed.
const STEPS_OF_GROWTH: usize = 30 * STEPS_A_DAY as usize;

/// Each subscription is checked every this many steps.
const STEPS_OF_A_LOOK: u64 = 30 * STEPS_A_DAY;

/// Webhooks that are delivered at a time.
const WEBHOOKS: usize = 8;

/// Cards, as often as they are here. About every eighth payment fails.
const CARDS: [&str; 20] = [
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_flaky_30",
    "card_flaky_30",
    "card_flaky_30",
    "card_flaky_70",
    "card_declined",
    "card_3ds",
    "card_3ds",
    "card_slow",
];

/// Lengths of periods. Of each there are prices that can take each other's place.
const EVERY: [Every; 4] = [
    Every::MONTH,
    Every {
        count: 3,
        unit: Unit::Month,
    },
    Every::YEAR,
    Every {
        count: 2,
        unit: Unit::Week,
    },
];

/// Prices of each length.
pub(crate) const PRICES: u32 = 3;

/// The product of all of them.
pub(crate) const PRODUCT: &str = "prod_1";

/// A customer who always has a subscription: another one soon after one has ended.
struct Place {
    length: usize,
    subscriptions: usize,
}

pub(crate) struct Life {
    places: Vec<Place>,
    step: u64,
    /// Payments whose customers will never prove who they are.
    ignored: BTreeSet<String>,
    /// Webhooks that come later.
    late: Vec<GatewayEvent>,
}

/// The id of a subscription of a place.
fn subscription_of(place: usize, number: usize) -> String {
    format!("sub_{place}_{number}")
}

/// The id of its customer.
pub(crate) fn customer_of(subscription: &str) -> String {
    subscription.replace("sub_", "cus_")
}

pub(crate) fn prices() -> impl Iterator<Item = String> {
    (0..EVERY.len()).flat_map(|length| (0..PRICES).map(move |number| price_of(length, number)))
}

fn price_of(length: usize, number: u32) -> String {
    format!("price_{length}_{number}")
}

impl Life {
    /// There are no subscriptions yet; this many will come.
    pub(crate) async fn begin(world: &World, subscriptions: u64) -> Self {
        let env = world.env();
        let product = env.object::<Product>().get_by_name(PRODUCT);
        let new = NewProduct {
            name: "Seats".into(),
        };
        created(
            product
                .transition("create".into(), "created".into(), json!(new))
                .await,
        );
        for (length, every) in EVERY.into_iter().enumerate() {
            for number in 0..PRICES {
                let amount = 997 + 1_503 * i64::from(number);
                let new = NewPrice {
                    product: PRODUCT.into(),
                    unit_amount: Money::new(amount, "EUR".parse().unwrap()).unwrap(),
                    every,
                };
                let price = env.object::<Price>().get_by_name(&price_of(length, number));
                created(
                    price
                        .transition("create".into(), "created".into(), json!(new))
                        .await,
                );
            }
        }
        // Most pay monthly or by the year.
        let yearly = usize::try_from(setting("BILLING_YEARLY", 0)).unwrap();
        let lengths = [0, 0, 1, 2, 2, 3].into_iter().chain(repeat_n(2, yearly));
        let places = lengths.cycle().map(|length| Place {
            length,
            subscriptions: 0,
        });
        Self {
            places: places
                .take(usize::try_from(subscriptions).unwrap())
                .collect(),
            step: 0,
            ignored: BTreeSet::new(),
            late: Vec::new(),
        }
    }

    /// The ids of all subscriptions there ever were.
    pub(crate) fn subscriptions(&self) -> impl Iterator<Item = String> {
        let places = self.places.iter().enumerate();
        places.flat_map(|(place, Place { subscriptions, .. })| {
            (0..*subscriptions).map(move |number| subscription_of(place, number))
        })
    }

    /// One of those that are there now.
    fn present(&self, place: usize) -> Option<String> {
        let number = self.places[place].subscriptions.checked_sub(1)?;
        Some(subscription_of(place, number))
    }

    /// A quarter of a day: some customers go to their banks, webhooks come, some change something, some end and others begin.
    pub(crate) async fn goes_on(&mut self, world: &World, random: &mut Random) {
        self.step += 1;
        self.authenticate(world, random);
        self.hear(world, random, 4).await;
        self.grow(world, random).await;
        self.look(world, random).await;
        let count = u32::try_from(self.places.len()).unwrap();
        let acts = u64::from(count) * ACTS_A_YEAR;
        let rest = u32::try_from(acts % STEPS_A_YEAR).unwrap();
        let more = random.below(u32::try_from(STEPS_A_YEAR).unwrap()) < rest;
        for _ in 0..acts / STEPS_A_YEAR + u64::from(more) {
            let place = random.below(count) as usize;
            if let Some(subscription) = self.present(place) {
                self.act(world, place, &subscription, random).await;
            }
        }
        world.settle().await;
    }

    /// Customers do nothing any more; every webhook comes.
    pub(crate) async fn ends(&mut self, world: &World, random: &mut Random) {
        self.hear(world, random, 1).await;
        world.settle().await;
    }

    fn authenticate(&mut self, world: &World, random: &mut Random) {
        for payment in world.gateway.waiting() {
            if self.ignored.contains(&payment.id) {
                continue;
            }
            match random.below(10) {
                0 => drop(self.ignored.insert(payment.id)),
                1 => drop(world.gateway.authenticate(&payment.id, false)),
                _ => drop(world.gateway.authenticate(&payment.id, true)),
            }
        }
    }

    /// The gateway's webhooks come, in whatever number and order: of this many, one later. Some are told to the invoice and to the
    /// subscription at once, as if the payment had done so.
    async fn hear(&mut self, world: &World, random: &mut Random, late: u32) {
        let mut events = std::mem::take(&mut self.late);
        events.extend(world.gateway.take_events());
        for last in (1..events.len()).rev() {
            events.swap(
                last,
                random.below(u32::try_from(last + 1).unwrap()) as usize,
            );
        }
        let mut now = Vec::new();
        for event in events {
            if late > 1 && random.below(late) == 0 {
                self.late.push(event);
            } else {
                now.push((event, random.below(10)));
            }
        }
        stream::iter(now)
            .for_each_concurrent(WEBHOOKS, async |(event, luck)| {
                payment::handle_event(world.env(), &event).await.unwrap();
                if luck == 0 && event.payment.status.is_final() {
                    report(world, &event).await;
                }
            })
            .await;
        world.settle().await;
    }

    /// Those subscribe who have not yet, some at a time.
    async fn grow(&mut self, world: &World, random: &mut Random) {
        let some = self.places.len().div_ceil(STEPS_OF_GROWTH);
        let new = self
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| place.subscriptions == 0);
        let new: Vec<usize> = new.map(|(place, _)| place).take(some).collect();
        for place in new {
            self.subscribe(world, place, random).await;
            // Not all in the same second.
            let seconds = u64::from(random.below(1_200));
            world.clock.advance(std::time::Duration::from_secs(seconds));
            world.settle().await;
        }
    }

    async fn subscribe(&mut self, world: &World, place: usize, random: &mut Random) {
        let env = world.env();
        let Place {
            length,
            subscriptions,
        } = &mut self.places[place];
        let id = subscription_of(place, *subscriptions);
        *subscriptions += 1;
        let price = price_of(*length, random.below(PRICES));
        let name = customer_of(&id);
        let new = NewCustomer {
            name: format!("Customer {name}"),
            email: format!("{name}@example.com"),
            payment_method: Some(card(random).to_owned()),
        };
        let customer = env.object::<Customer>().get_by_name(&name);
        created(
            customer
                .transition("create".into(), "created".into(), json!(new))
                .await,
        );
        let new = NewSubscription {
            customer: name,
            price,
            quantity: 1 + random.below(4),
            trial_days: [0, 0, 14][random.below(3) as usize],
        };
        let subscription = env.object::<Subscription>().get_by_name(&id);
        created(subscription.create(new).await);
    }

    /// Checks some subscriptions: an ended one is followed by another, an unpaid one is paid by hand or ended.
    async fn look(&mut self, world: &World, random: &mut Random) {
        let turn = usize::try_from(self.step % STEPS_OF_A_LOOK).unwrap();
        let period = usize::try_from(STEPS_OF_A_LOOK).unwrap();
        for place in (turn..self.places.len()).step_by(period) {
            let Some(id) = self.present(place) else {
                continue;
            };
            let subscription = world.env().object::<Subscription>().get_by_name(&id);
            let view = subscription.get_state().await.unwrap();
            match (&*view.state, random.below(4)) {
                ("canceled" | "incomplete_expired", _) => {
                    self.subscribe(world, place, random).await;
                }
                ("unpaid", 0) => done(subscription.cancel(false).await),
                ("unpaid" | "past_due", 1..3) => {
                    give_card(world, &id, random).await;
                    pay(world, &id, &view).await;
                }
                ("unpaid" | "past_due", 3) => void(world, &view).await,
                ("paused", 0..3) => done(subscription.resume().await),
                _ => {}
            }
        }
    }

    async fn act(&self, world: &World, place: usize, id: &str, random: &mut Random) {
        let subscription = world.env().object::<Subscription>().get_by_name(id);
        match random.below(100) {
            0..50 => {
                let price = price_of(self.places[place].length, random.below(PRICES));
                done(subscription.change(price, Some(1 + random.below(4))).await);
            }
            50..84 => give_card(world, id, random).await,
            84..88 => done(subscription.pause().await),
            88..93 => done(subscription.resume().await),
            93..97 => done(subscription.cancel(true).await),
            97..99 => done(subscription.keep().await),
            _ => done(subscription.cancel(false).await),
        }
    }
}

async fn give_card(world: &World, subscription: &str, random: &mut Random) {
    let customer = world
        .env()
        .object::<Customer>()
        .get_by_name(&customer_of(subscription));
    let set = SetPaymentMethod {
        payment_method: card(random).to_owned(),
    };
    done(
        customer
            .transition("set_payment_method".into(), "set".into(), json!(set))
            .await,
    );
}

/// Everything that is owed is paid by hand: with an attempt that no timer begins.
async fn pay(world: &World, id: &str, view: &View) {
    let subscription = world.env().object::<Subscription>().get_by_name(id);
    let live: states::Subscription = serde_json::from_value(view.data.clone()).unwrap();
    for (invoice, owed) in live.owed {
        let attempt = Attempt {
            invoice,
            attempt: owed.attempts + 1,
        };
        done(
            subscription
                .transition("retry".into(), "attempted".into(), json!(attempt))
                .await,
        );
    }
}

/// The first invoice that is owed is not to be paid.
async fn void(world: &World, view: &View) {
    let live: states::Subscription = serde_json::from_value(view.data.clone()).unwrap();
    if let Some(invoice) = live.owed.keys().next() {
        done(
            world
                .env()
                .object::<Invoice>()
                .get_by_name(invoice)
                .void()
                .await,
        );
    }
}

/// A payment's end is told to those who want to know, before the payment does so or after it.
async fn report(world: &World, event: &GatewayEvent) {
    let payment = &event.payment;
    let intent = &payment.reference;
    let (invoice, attempt) = intent.rsplit_once('_').unwrap();
    let invoice = invoice.strip_prefix("pi_").unwrap();
    let (subscription, _) = invoice.rsplit_once('_').unwrap();
    let subscription = subscription.strip_prefix("in_").unwrap();
    let result = PaymentResult {
        invoice: invoice.to_owned(),
        intent: intent.clone(),
        attempt: attempt.parse().unwrap(),
        amount: payment.amount,
        verdict: match payment.status {
            PaymentStatus::Succeeded => Verdict::Paid,
            _ => Verdict::Failed,
        },
        reason: payment.decline.clone(),
    };
    let env = world.env();
    let subscription = env.object::<Subscription>().get_by_name(subscription);
    let told = subscription.report_payment_result(result.clone()).await;
    told.unwrap();
    let invoice = env.object::<Invoice>().get_by_name(invoice);
    let told = invoice.report_payment_result(result).await;
    told.unwrap();
}

fn card(random: &mut Random) -> &'static str {
    CARDS[random.below(u32::try_from(CARDS.len()).unwrap()) as usize]
}

fn created(created: Result<View, BillingError>) {
    created.unwrap();
}

/// What the state of a subscription does not take is not done.
fn done(done: Result<View, BillingError>) {
    match done {
        Ok(_) | Err(BillingError::Outcome(_) | BillingError::Refused(_)) => {}
        Err(error) => panic!("{error}"),
    }
}
