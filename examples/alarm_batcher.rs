// A batcher: posts are stored, and an alarm sends all of them ten seconds after the first.
//
// `cargo run --example alarm-batcher`

use std::{sync::Arc, time::Duration};

use abide::{Host, clock::TestClock, prelude::*};

#[durable_object]
pub struct Batcher {
    ctx: Ctx,
}

#[durable_object]
impl DurableObject for Batcher {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let create =
            "CREATE TABLE IF NOT EXISTS posts (id INTEGER PRIMARY KEY, text TEXT NOT NULL)";
        ctx.sql().exec(create, ())?;
        Ok(Self { ctx })
    }

    /// Runs at least once, also after a crash. It is not `async`, so it is one transaction: if it fails, its writes are
    /// undone, and it runs again later.
    fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        let sql = self.ctx.sql();
        let posts: Vec<String> = sql.exec("DELETE FROM posts RETURNING text", ())?.all()?;
        println!("sending {posts:?}"); // a real one uses an outbox: see outbox_email.rs
        Ok(())
    }
}

#[rpc]
impl Batcher {
    /// The row and the alarm are one transaction.
    pub fn post(&self, text: String) -> Result<()> {
        let storage = self.ctx.storage();
        storage
            .sql()
            .exec("INSERT INTO posts (text) VALUES (?1)", (text,))?;
        if storage.alarm()?.is_none() {
            storage.set_alarm(Duration::from_secs(10))?;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // A clock that moves when this program says so. Without it, the host uses the machine's.
    let clock = TestClock::new();
    let host = Host::open_in_memory()
        .object::<Batcher>()
        .clock(Arc::new(clock.clone()))
        .start_local()
        .await?;
    let batcher = host.env().object::<Batcher>().get_by_name("news");

    batcher.post("one".to_owned()).await?;
    clock.advance(Duration::from_secs(9));
    batcher.post("two".to_owned()).await?;
    host.settle().await?;
    println!("nothing was sent for nine seconds");

    clock.advance(Duration::from_secs(1));
    host.settle().await?; // returns when the alarm's handler has run
    host.shutdown().await?;
    Ok(())
}
