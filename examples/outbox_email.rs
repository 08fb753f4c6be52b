// An order and its email in one transaction: the outbox delivers the email until the mail service has it.
//
// `cargo run --example outbox-email`

use std::{sync::Arc, time::Duration};

use abide::{
    Host,
    clock::TestClock,
    outbox::{self, Deliver, Delivery, Failure, Outbox, OutboxError, Registry, Submitted},
    prelude::*,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Email {
    to: String,
    text: String,
}

/// A mail service that is down at first. `outbox::handlers` has handlers for real ones, such as `SmtpDelivery`.
struct MailService;

impl Deliver for MailService {
    type Payload = Email;
    const KIND: &'static str = "email";

    async fn submit(&self, delivery: &Delivery, email: &Email) -> Result<Submitted, Failure> {
        if delivery.attempt() < 3 {
            println!("attempt {}: the mail service is down", delivery.attempt());
            return Err(Failure::refused("the mail service is down"));
        }
        // A receiver that knows `delivery.idempotency_key()` already ignores the repetition.
        println!(
            "attempt {}: to {}: {}",
            delivery.attempt(),
            email.to,
            email.text
        );
        Ok(Submitted::Done)
    }
}

#[durable_object]
pub struct Shop {
    state: State,
    outbox: Outbox,
}

impl DurableObject for Shop {
    fn new(state: State, env: Env) -> Result<Self> {
        let create =
            "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, what TEXT NOT NULL)";
        state.storage().sql().exec(create, ())?;
        let outbox = Outbox::open(
            &state,
            env.require::<Registry>()?,
            outbox::Options::default(),
        )?;
        Ok(Self { state, outbox })
    }
}

#[rpc]
impl Shop {
    pub async fn order(&self, what: String, to: String) -> Result<(), OutboxError> {
        // If the outbox refuses the email, there is no order either.
        self.state.storage().transaction_sync(|| {
            let insert = "INSERT INTO orders (what) VALUES (?1)";
            self.state.storage().sql().exec(insert, (&what,))?;
            let text = format!("Thank you for ordering {what}.");
            MailService::enqueue(&self.outbox, &Email { to, text })?;
            Ok(())
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let clock = TestClock::new();
    let host = Host::open_in_memory()
        .with(Registry::new().with(MailService))
        .object::<Shop>("SHOP")
        .clock(Arc::new(clock.clone()))
        .start_local()
        .await?;
    let shop = host.env().object::<Shop>().get_by_name("main");
    shop.order("a kettle".to_owned(), "ada@example.com".to_owned())
        .await??;
    for _ in 0..3 {
        host.settle().await?; // the attempt has been made
        clock.advance(Duration::from_mins(1)); // more than the pause before the next
    }
    host.settle().await?;
    host.shutdown().await?;
    Ok(())
}
