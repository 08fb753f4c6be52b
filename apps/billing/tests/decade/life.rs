//! What customers do.

use std::collections::BTreeSet;

use abide_harness::Random;
use billing::{
    BillingError, Every, Money, Unit,
    resources::{Customer, NewSubscription, Price, Product, Subscription},
    states::{NewCustomer, NewPrice, NewProduct, SetPaymentMethod},
};
use serde_json::json;

use crate::world::World;

/// Acts of each subscription in a year, on average.
const ACTS_A_YEAR: u64 = 6;

/// Steps of a year.
const STEPS_A_YEAR: u64 = 365 * crate::STEPS_A_DAY;

/// Cards, as often as they are here.
const CARDS: [&str; 12] = [
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_ok",
    "card_flaky_30",
    "card_flaky_30",
    "card_flaky_70",
    "card_declined",
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
const PRICES: u32 = 3;

pub(crate) struct Life {
    pub(crate) subscriptions: Vec<String>,
    /// Payments whose customers will never prove who they are.
    ignored: BTreeSet<String>,
}

impl Life {
    /// Everybody subscribes.
    pub(crate) async fn begin(world: &World, subscriptions: u64) -> Self {
        let env = world.env();
        let product = env.object::<Product>().get_by_name("prod_1");
        let new = NewProduct {
            name: "Seats".into(),
        };
        create(
            product
                .transition("create".into(), "created".into(), json!(new))
                .await
                .unwrap(),
        );
        for (length, every) in EVERY.into_iter().enumerate() {
            for number in 0..PRICES {
                let new = NewPrice {
                    product: "prod_1".into(),
                    unit_amount: Money::new(
                        997 + 1_503 * i64::from(number),
                        "EUR".parse().unwrap(),
                    )
                    .unwrap(),
                    every,
                };
                let price = env
                    .object::<Price>()
                    .get_by_name(&format!("price_{length}_{number}"));
                create(
                    price
                        .transition("create".into(), "created".into(), json!(new))
                        .await
                        .unwrap(),
                );
            }
        }
        let mut names = Vec::new();
        for number in 0..subscriptions {
            let mut random = Random::new(number * 7_919 + 17);
            let customer = env
                .object::<Customer>()
                .get_by_name(&format!("cus_{number}"));
            let new = NewCustomer {
                name: format!("Customer {number}"),
                email: format!("c{number}@example.com"),
                payment_method: Some(card(&mut random).to_owned()),
            };
            create(
                customer
                    .transition("create".into(), "created".into(), json!(new))
                    .await
                    .unwrap(),
            );
            let name = format!("sub_{number}");
            let new = NewSubscription {
                customer: format!("cus_{number}"),
                price: format!("price_{}_{}", length(number), random.below(PRICES)),
                quantity: 1 + random.below(4),
                trial_days: [0, 0, 14][random.below(3) as usize],
            };
            let subscription = env.object::<Subscription>().get_by_name(&name);
            create(subscription.create(new).await.unwrap());
            names.push(name);
            // Not all in the same second.
            world
                .clock
                .advance(std::time::Duration::from_secs(u64::from(
                    random.below(7_200),
                )));
            world.settle().await;
        }
        Self {
            subscriptions: names,
            ignored: BTreeSet::new(),
        }
    }

    /// A quarter of a day: webhooks come, some customers go to their banks, some change something.
    pub(crate) async fn goes_on(&mut self, world: &World, random: &mut Random) {
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
        world.hear().await;
        let count = self.subscriptions.len() as u64;
        let mut acts = count * ACTS_A_YEAR / STEPS_A_YEAR;
        let rest = u32::try_from(count * ACTS_A_YEAR % STEPS_A_YEAR).unwrap();
        acts += u64::from(random.below(u32::try_from(STEPS_A_YEAR).unwrap()) < rest);
        for _ in 0..acts {
            let number = random.below(u32::try_from(count).unwrap());
            self.act(world, number.into(), random).await;
        }
        if acts > 0 {
            world.settle().await;
        }
    }

    async fn act(&self, world: &World, number: u64, random: &mut Random) {
        let env = world.env();
        let subscription = env
            .object::<Subscription>()
            .get_by_name(&self.subscriptions[usize::try_from(number).unwrap()]);
        let done = match random.below(200) {
            0..110 => {
                let price = format!("price_{}_{}", length(number), random.below(PRICES));
                subscription.change(price, 1 + random.below(4)).await
            }
            110..170 => {
                let customer = env
                    .object::<Customer>()
                    .get_by_name(&format!("cus_{number}"));
                let set = SetPaymentMethod {
                    payment_method: card(random).to_owned(),
                };
                customer
                    .transition("set_payment_method".into(), "set".into(), json!(set))
                    .await
            }
            170..180 => subscription.pause().await,
            180..197 => subscription.resume().await,
            197 => subscription.cancel(true).await,
            198 => subscription.keep().await,
            _ => subscription.cancel(random.below(4) > 0).await,
        };
        match done.unwrap() {
            // Its state does not take it.
            Ok(_) | Err(BillingError::Outcome(_) | BillingError::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn length(number: u64) -> u64 {
    // Most are paid monthly or by the year.
    [0, 0, 1, 2, 2, 3][usize::try_from(number % 6).unwrap()]
}

fn card(random: &mut Random) -> &'static str {
    CARDS[random.below(u32::try_from(CARDS.len()).unwrap()) as usize]
}

fn create<T>(created: Result<T, BillingError>) {
    if let Err(error) = created {
        panic!("{error}");
    }
}
