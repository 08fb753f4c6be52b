//! Lists of reminders, each a durable object.

use abide::{
    Host,
    prelude::*,
    server::{FrontPage, HostBuilder, HostError},
};
use serde::{Deserialize, Serialize};

/// One list. All of its code runs on one thread, and its writes between two awaits are one transaction.
#[durable_object]
pub struct Reminders {
    ctx: Ctx,
    env: Env,
}

/// A reminder as callers see it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Reminder {
    pub id: i64,
    pub text: String,
    pub is_due: bool,
}

#[durable_object]
impl DurableObject for Reminders {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        ctx.sql().exec(
            "CREATE TABLE IF NOT EXISTS reminders (
                id INTEGER PRIMARY KEY, text TEXT NOT NULL, due_at INTEGER NOT NULL, is_due INTEGER NOT NULL DEFAULT FALSE
            )",
            (),
        )?;
        Ok(Self { ctx, env })
    }

    /// Runs at least once at the time for which the alarm was set, even after a crash.
    fn alarm(&self, _: AlarmInfo) -> Result<()> {
        let sql = self.ctx.sql();
        sql.exec(
            "UPDATE reminders SET is_due = TRUE WHERE due_at <= ?",
            params![self.now()],
        )?;
        self.set_next_alarm()
    }
}

/// Callable methods: `env.object::<Reminders>().get_by_name("home").add(…)`, or `POST /rpc/Reminders/home/add`.
#[rpc]
impl Reminders {
    /// Adds a reminder that is due after this many seconds, and returns its id. The row and the alarm are written
    /// together.
    pub fn add(&self, text: String, seconds: u32) -> Result<i64> {
        let due_at = self.now() + i64::from(seconds) * 1000;
        let sql = self.ctx.sql();
        let added = sql.exec(
            "INSERT INTO reminders (text, due_at) VALUES (?, ?) RETURNING id",
            params![text, due_at],
        )?;
        self.set_next_alarm()?;
        added.one()
    }

    /// All reminders, oldest first.
    pub fn list(&self) -> Result<Vec<Reminder>> {
        let sql = self.ctx.sql();
        let rows = sql.exec("SELECT id, text, is_due FROM reminders ORDER BY id", ())?;
        rows.all()
    }

    fn set_next_alarm(&self) -> Result<()> {
        let storage = self.ctx.storage();
        let next = "SELECT min(due_at) FROM reminders WHERE NOT is_due";
        let next: Option<i64> = storage.sql().exec(next, ())?.one()?;
        match next {
            Some(due_at) => storage.set_alarm(due_at),
            None => storage.delete_alarm(),
        }
    }

    /// Milliseconds since 1970, by the node's clock, which a test can control.
    fn now(&self) -> i64 {
        self.env.now().unix_millis()
    }
}

/// The program's configuration, on any host: a test uses one in memory.
fn install(host: HostBuilder) -> HostBuilder {
    let page = FrontPage::new("{name}", "Lists of reminders.")
        .try_curl(
            "Add a reminder that is due in 5 seconds",
            "--json '[\"water the plants\", 5]'",
            "/rpc/Reminders/home/add",
        )
        .try_curl("List them", "--json '[]'", "/rpc/Reminders/home/list");
    host.object::<Reminders>().json_rpc().front_page(page)
}

#[tokio::main]
async fn main() -> Result<(), HostError> {
    install(Host::from_settings()?).serve().await
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use abide::clock::TestClock;

    use super::*;

    #[tokio::test]
    async fn a_reminder_is_due_when_its_time_has_come() -> Result<(), HostError> {
        let clock = TestClock::new();
        let host = install(Host::open_in_memory())
            .clock(Arc::new(clock.clone()))
            .start_local()
            .await?;
        let home = host.env().object::<Reminders>().get_by_name("home");
        home.add("water the plants".to_owned(), 60).await?;
        home.add("feed the cat".to_owned(), 90).await?;

        clock.advance(Duration::from_secs(59));
        assert!(!home.list().await?[0].is_due);
        clock.advance(Duration::from_secs(1));
        // The alarm goes off without a call, on the object's own thread.
        host.settle().await?;
        let reminders = home.list().await?;
        assert!(reminders[0].is_due);
        assert!(!reminders[1].is_due);
        host.shutdown().await
    }
}
