// A counter: an object with a name and a database, which outlives the program.
//
// `cargo run --example counter`

use abide::{Host, prelude::*, server::HostBuilder};

#[durable_object]
pub struct Counter {
    ctx: Ctx,
}

impl DurableObject for Counter {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[rpc]
impl Counter {
    /// No other call runs between the read and the write, and the caller gets the result when the write is on disk.
    pub fn increment(&self) -> Result<u32> {
        let storage = self.ctx.storage();
        let value = storage.get("value")?.unwrap_or(0) + 1;
        storage.put("value", &value)?;
        Ok(value)
    }
}

/// Counts twice in a process that serves this data directory.
async fn count(host: HostBuilder) -> anyhow::Result<()> {
    let host = host.object::<Counter>().start_local().await?;
    let counters = host.env().object::<Counter>();
    let visits = counters.get_by_name("visits");
    println!("visits: {}", visits.increment().await?);
    println!("visits: {}", visits.increment().await?);
    // Another name is another object.
    let downloads = counters.get_by_name("downloads");
    println!("downloads: {}", downloads.increment().await?);
    host.shutdown().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // A program that operators run uses `Host::from_settings()?` and `serve()`.
    let data = tempfile::tempdir()?;
    count(Host::builder(data.path())).await?;
    println!("stopped and started again");
    count(Host::builder(data.path())).await
}
