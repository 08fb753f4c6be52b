//! The read model is stopped, slow, stuck or gone: billing continues, no caller waits, and it catches up.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use abide::projection::{PostgresModel, ReadModel};
use abide_harness::{Postgres, Random};
use billing::{read, resources::Subscription, states};

use crate::decade::{
    STEP, STEPS_A_DAY, checks,
    life::Life,
    model::{Model, Mood},
    world::World,
};

const SUBSCRIPTIONS: u64 = 8;

/// What has not been answered after this time never will be.
const PATIENCE: Duration = Duration::from_mins(2);

async fn days(world: &World, life: &mut Life, random: &mut Random, days: u64) {
    steps(world, life, random, days * STEPS_A_DAY, STEP).await;
}

/// In long steps: each waits a while for a read model that takes nothing.
async fn weeks(world: &World, life: &mut Life, random: &mut Random, weeks: u64) {
    steps(world, life, random, weeks, Duration::from_hours(7 * 24)).await;
}

async fn steps(world: &World, life: &mut Life, random: &mut Random, many: u64, step: Duration) {
    for _ in 0..many {
        world.clock.advance(step);
        world.settle().await;
        life.goes_on(world, random).await;
    }
}

/// The states of all subscriptions.
async fn subscriptions(world: &World, life: &Life) -> Vec<(String, states::Subscription)> {
    let mut all = Vec::new();
    for id in life.subscriptions() {
        let object = world.env().object::<Subscription>().get_by_name(&id);
        let view = object.get_state().await.unwrap();
        all.push((id, serde_json::from_value(view.data).unwrap()));
    }
    all
}

/// Periods that were billed, or skipped.
async fn periods(world: &World, life: &Life) -> u32 {
    let all = subscriptions(world, life).await;
    all.iter().map(|(_, live)| live.next).sum()
}

/// Changes the plan of each subscription some times, while time stands still: nothing that waits for the read model would end.
/// Returns the middle one of the times that it took.
async fn changes(world: &World, life: &Life) -> Duration {
    let mut took = Vec::new();
    for quantity in 1..=20 {
        for (id, live) in subscriptions(world, life).await {
            let Some(plan) = live.plan.filter(|_| live.ended_at.is_none()) else {
                continue;
            };
            let object = world.env().object::<Subscription>().get_by_name(&id);
            let begun = Instant::now();
            let change = object.change(plan.price, Some(quantity)).answer();
            let change = tokio::time::timeout(PATIENCE, change);
            // Some states take no change, and say so at once.
            let _ = change.await.expect("no caller waits").unwrap();
            took.push(begun.elapsed());
        }
    }
    took.sort_unstable();
    took[took.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn billing_continues_while_the_read_model_is_down_and_it_catches_up() {
    let mut random = Random::new(7);
    let world = World::new(7);
    let mut life = Life::begin(&world, SUBSCRIPTIONS).await;
    days(&world, &mut life, &mut random, 20).await;
    println!("well: a change in {:?}", changes(&world, &life).await);
    for mood in [Mood::Stopped, Mood::Slow, Mood::Stuck] {
        let before = periods(&world, &life).await;
        world.model.set(mood);
        println!("{mood:?}: a change in {:?}", changes(&world, &life).await);
        weeks(&world, &mut life, &mut random, 5).await;
        let billed = periods(&world, &life).await - before;
        assert!(billed > 0, "{mood:?}: months have gone by");
        world.model.set(Mood::Well);
        world.catch_up().await;
    }
    checks::all(&world.stands_still(), &life).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_read_model_is_rebuilt_while_billing_continues() {
    let mut random = Random::new(11);
    let mut world = World::new(11);
    let mut life = Life::begin(&world, SUBSCRIPTIONS).await;
    for _ in 0..3 {
        days(&world, &mut life, &mut random, 8).await;
        assert!(rows(&world).await > 0);
        world.model.vanishes();
        days(&world, &mut life, &mut random, 8).await;
        world = world.dies(&mut random);
        world.settle().await;
        let told = world.rebuild().await;
        assert!(told.asked > 0 && told.failed == 0, "{told:?}");
    }
    world.catch_up().await;
    checks::all(&world.stands_still(), &life).await;
}

async fn rows(world: &World) -> i64 {
    let count = "SELECT count(*) AS many FROM resources";
    // A server that was killed has to be reached anew.
    for _ in 0..100 {
        if let Ok(found) = world.model.query(count, vec![]).await {
            return found[0]["many"].as_i64().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the read model does not answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn nothing_is_lost_when_postgresql_is_killed_in_the_middle_of_billing() {
    let mut random = Random::new(13);
    let mut server = Postgres::start();
    let address = server.address();
    let mut world = World::with_model(13, |clock| {
        let model = PostgresModel::new(&address, read::tables().unwrap());
        Model::of(clock, Arc::new(model.unwrap()))
    });
    let mut life = Life::begin(&world, SUBSCRIPTIONS).await;
    for round in 0..6 {
        days(&world, &mut life, &mut random, 8).await;
        let before = periods(&world, &life).await;
        // Batches are on their way.
        let moment = Duration::from_micros(u64::from(random.below(20_000)));
        let killing = tokio::task::spawn_blocking(move || {
            std::thread::sleep(moment);
            server.kill();
            server
        });
        days(&world, &mut life, &mut random, 1).await;
        server = killing.await.unwrap();
        if round % 2 == 1 {
            world = world.dies(&mut random);
        }
        weeks(&world, &mut life, &mut random, 3).await;
        let billed = periods(&world, &life).await - before;
        assert!(billed > 0, "round {round}: billing continues");
        server.start_again();
        world.catch_up().await;
        assert!(rows(&world).await > 0);
        if round == 3 {
            world.model.wipe().await.unwrap();
            world.rebuild().await;
        }
    }
    checks::all(&world.stands_still(), &life).await;
}
