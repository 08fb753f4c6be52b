//! Kills and power failures at random, while subscriptions are billed by the day and the receiver misbehaves.

use std::{collections::BTreeMap, time::Duration};

use abide_harness::{Random, run, setting};
use billing::{
    BillingError,
    resource::{Event, View},
    resources::{Customer, Invoice, NewSubscription, PaymentIntent, Price, Product, Subscription},
    states::{self, Draft},
};
use serde_json::{Value, json};

use crate::webhooks::{expected, world::World};

/// Subscriptions, with their cards.
const CARDS: [&str; 4] = ["card_ok", "card_flaky_50", "card_3ds", "card_slow"];

const DAYS: u64 = 16;

/// Of a hundred requests, this many go wrong at the receiver.
const MISCHIEF: u32 = 30;

/// Calls something that every resource has.
macro_rules! of {
    ($world:expr, $id:expr, $method:ident($($given:expr),*)) => {{
        let (env, id) = ($world.env(), $id);
        match id.split('_').next().unwrap() {
            "prod" => env.object::<Product>().get_by_name(id).$method($($given),*).await,
            "price" => env.object::<Price>().get_by_name(id).$method($($given),*).await,
            "cus" => env.object::<Customer>().get_by_name(id).$method($($given),*).await,
            "sub" => env.object::<Subscription>().get_by_name(id).$method($($given),*).await,
            "in" => env.object::<Invoice>().get_by_name(id).$method($($given),*).await,
            _ => env.object::<PaymentIntent>().get_by_name(id).$method($($given),*).await,
        }
    }};
}

async fn write(world: &World, id: &str, action: &str, outcome: &str, data: Value) {
    let written = of!(world, id, transition(action.into(), outcome.into(), data));
    written.unwrap();
}

async fn begin(world: &World) {
    write(
        world,
        "prod_tea",
        "create",
        "created",
        json!({ "name": "Tea" }),
    )
    .await;
    let price = json!({
        "product": "prod_tea",
        "unit_amount": { "amount": 1_000, "currency": "EUR" },
        "every": { "count": 1, "unit": "day" },
    });
    write(world, "price_day", "create", "created", price).await;
    for (number, card) in CARDS.iter().enumerate() {
        let customer = format!("cus_{number}");
        let new = json!({ "name": "Ada", "email": "ada@example.com", "payment_method": card });
        write(world, &customer, "create", "created", new).await;
        let new = NewSubscription {
            customer,
            price: "price_day".into(),
            quantity: 1,
            trial_days: u32::from(number == 0),
        };
        let subscription = world.env().object::<Subscription>();
        let subscription = subscription.get_by_name(&format!("sub_{number}"));
        subscription.create(new).await.unwrap();
    }
}

/// A random act, whether it is allowed or not.
async fn act(world: &World, random: &mut Random) {
    let number = random.below(u32::try_from(CARDS.len()).unwrap());
    let id = format!("sub_{number}");
    let subscription = world.env().object::<Subscription>().get_by_name(&id);
    let done = match random.below(12) {
        0..3 => {
            let quantity = 1 + random.below(3);
            subscription
                .change("price_day".into(), Some(quantity))
                .await
        }
        3 => subscription.pause().await,
        4..8 => subscription.resume().await,
        8 => subscription.cancel(true).await,
        9..11 => subscription.keep().await,
        _ => {
            let tea = json!({ "name": "Tea" });
            of!(
                world,
                "prod_tea",
                transition("create".into(), "created".into(), tea)
            )
        }
    };
    match done {
        Ok(_) | Err(BillingError::Outcome(_) | BillingError::Refused(_)) => {}
        // A clock that jumps makes callers wait for the object for long.
        Err(BillingError::Object(error)) if error.retryable() => {}
        other => panic!("{other:?}"),
    }
    for payment in world.gateway.waiting() {
        world.gateway.authenticate(&payment.id, random.below(4) > 0);
    }
}

/// Every resource there is.
async fn resources(world: &World) -> Vec<String> {
    let mut ids = vec!["prod_tea".to_owned(), "price_day".to_owned()];
    for number in 0..CARDS.len() {
        ids.push(format!("cus_{number}"));
        let id = format!("sub_{number}");
        let view: View = of!(world, &id, get_state()).unwrap();
        ids.push(id.clone());
        let live: states::Subscription = serde_json::from_value(view.data).unwrap();
        for period in 0..live.next {
            let invoice = Draft::id_of(&id, period);
            let Ok(view): Result<View, _> = of!(world, &invoice, get_state()) else {
                continue;
            };
            let live: states::Invoice = serde_json::from_value(view.data).unwrap();
            for attempt in 1..=live.attempts {
                let intent = states::Invoice::intent(&invoice, attempt);
                if of!(world, &intent, get_state()).is_ok() {
                    ids.push(intent);
                }
            }
            ids.push(invoice);
        }
    }
    ids
}

/// What is to be told, by resource.
async fn wanted(world: &World) -> BTreeMap<String, Vec<String>> {
    let mut wanted = BTreeMap::new();
    for id in resources(world).await {
        let view: View = of!(world, &id, get_state()).unwrap();
        let chain: Vec<Event> = of!(world, &id, get_history(0, 1_000)).unwrap();
        let told = expected::of_chain(&id, &view.kind, &chain);
        wanted.insert(id, told);
    }
    wanted
}

/// What was taken, by resource.
fn taken(world: &World) -> BTreeMap<String, Vec<String>> {
    let mut taken: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for notice in world.receiver.taken("/all") {
        taken.entry(notice.resource.id).or_default().push(notice.id);
    }
    taken
}

/// Whether everything has been told. What has been is the beginning of it, of each resource.
async fn is_all_told(world: &World) -> bool {
    let taken = taken(world);
    let wanted = wanted(world).await;
    for (id, taken) in &taken {
        let wanted = wanted.get(id).map_or(&[][..], Vec::as_slice);
        assert!(
            wanted.starts_with(taken),
            "{id} told {taken:?}, not {wanted:?}"
        );
    }
    taken == wanted
}

/// How much was told, and how much of it again.
async fn simulate(seed: u64) -> (usize, u32) {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut world = World::new(seed, MISCHIEF);
    world.listens("/all", &[]).await;
    begin(&world).await;
    for _ in 0..DAYS * 2 {
        world.passes(Duration::from_hours(12)).await;
        act(&world, &mut random).await;
        if random.below(2) == 0 {
            // In the middle of what follows.
            tokio::time::sleep(Duration::from_micros(u64::from(random.below(2_000)))).await;
            world = world.dies(&mut random);
        }
    }
    // No more acts, and everything ends.
    world.receiver.behaves();
    for number in 0..CARDS.len() {
        let subscription = world.env().object::<Subscription>();
        let subscription = subscription.get_by_name(&format!("sub_{number}"));
        let ended = loop {
            match subscription.cancel(false).await {
                Err(BillingError::Object(error)) if error.retryable() => {
                    world.passes(Duration::from_hours(1)).await;
                }
                ended => break ended,
            }
        };
        assert!(
            matches!(ended, Ok(_) | Err(BillingError::Outcome(_))),
            "{ended:?}"
        );
    }
    // Whatever was on its way has ended after this.
    world.passes(Duration::from_hours(48)).await;
    world.until(async || is_all_told(&world).await).await;
    let told = taken(&world).values().map(Vec::len).sum();
    println!(
        "seed {seed}: {told} notices, {} copies",
        world.receiver.copies()
    );
    (told, world.receiver.copies())
}

#[test]
fn every_outcome_is_delivered_in_order_despite_faults() {
    let (mut told, mut copies) = (0, 0);
    let first = setting("BILLING_FIRST_SEED", 1);
    for seed in first..first + setting("BILLING_SEEDS", 2) {
        let (more, again) = run(simulate(seed));
        told += more;
        copies += again;
    }
    assert!(told > 50 && copies > 0, "{told} notices, {copies} copies");
}
