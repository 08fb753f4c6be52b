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
        let attempt = delivery.attempt();
        println!("attempt {attempt}, to {}: {}", email.to, email.text);
        if attempt < 3 {
            return Err(Failure::refused("the mail service is down"));
        }
        Ok(Submitted::Done) // a receiver ignores a repeated `delivery.idempotency_key()`
    }
}

#[durable_object]
pub struct Shop {
    ctx: Ctx,
    outbox: Outbox,
}

impl DurableObject for Shop {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let outbox = Outbox::open(&ctx, outbox::OutboxOptions::default())?;
        Ok(Self { ctx, outbox })
    }
}

#[rpc]
impl Shop {
    pub fn order(&self, what: String, to: String) -> Result<(), OutboxError> {
        // One transaction: if the outbox refuses the email, there is no order either.
        self.ctx.storage().put("last order", &what)?;
        let text = format!("Thank you for ordering {what}.");
        MailService::enqueue(&self.outbox, &Email { to, text }).map(drop)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let clock = TestClock::new();
    let host = Host::open_in_memory()
        .with(Registry::new().with(MailService))
        .object::<Shop>()
        .clock(Arc::new(clock.clone()))
        .start_local()
        .await?;
    let shop = host.env().object::<Shop>().get_by_name("main");
    let ada = "ada@example.com".to_owned();
    shop.order("a kettle".to_owned(), ada).await?;
    for _attempt in 0..3 {
        host.settle().await?; // the attempt has been made
        clock.advance(Duration::from_mins(1)); // more than the pause before the next
    }
    Ok(host.shutdown().await?)
}
