// A weekly report at nine o'clock in Berlin, in winter and in summer.
//
// `cargo run --example cron`

use std::{sync::Arc, time::Duration};

use abide::{
    Host,
    clock::TestClock,
    prelude::*,
    schedule::{self, Failure, Firing, Schedule, Spec},
};
use jiff::Timestamp;

#[durable_object]
pub struct Desk;

impl DurableObject for Desk {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let schedule = Schedule::open(&ctx, schedule::ScheduleOptions::default())?;
        let storage = ctx.storage().clone();
        schedule.on_firing(move |firing| report(&storage, firing))?;
        // Changes nothing if the timer is already set to the same.
        schedule.upsert(
            "report",
            &Spec::cron("report", "0 9 * * MON", "Europe/Berlin"),
        )?;
        Ok(Self)
    }
}

// What it writes and the completion of the occurrence are one transaction.
fn report(storage: &Storage, firing: &Firing) -> Result<(), Failure> {
    let number = storage.get("reports")?.unwrap_or(0) + 1;
    storage.put("reports", &number)?;
    match Timestamp::from_millisecond(firing.due_at) {
        Ok(due) => println!("report {number} of {due}"),
        Err(error) => return Err(Failure::permanent(error.to_string())),
    }
    Ok(())
}

#[rpc]
impl Desk {}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let clock = TestClock::new(); // at 2026-01-01T00:00:00Z
    let host = Host::open_in_memory()
        .object::<Desk>()
        // It exists, with its timer, although nothing calls it.
        .singleton::<Desk>("main")
        .clock(Arc::new(clock.clone()))
        .start_local()
        .await?;
    for _day in 0..92 {
        host.settle().await?;
        clock.advance(Duration::from_hours(24));
    }
    host.settle().await?;
    host.shutdown().await?;
    Ok(())
}
