//! Help desks. Each desk is a durable object with its tickets, their timers and the webhooks that report closed tickets.
//!
//! `api` turns HTTP into calls of [`Desk`] objects, `tickets` is the SQL of a desk, `live` its WebSockets. [`Visitor`] objects
//! bound how much one address may write.

mod api;
mod desk;
mod live;
mod settings;
mod tickets;
mod visitor;

use abide::{
    outbox::{
        Registry,
        handlers::{StaticSecrets, WebhookDelivery},
    },
    server::{FrontPage, HostBuilder},
};

pub use desk::{Desk, DeskError};
pub use settings::{Hook, Settings};
pub use tickets::{Comment, Status, Thread, Ticket};
pub use visitor::Visitor;

/// What the program runs, on whatever host: tests have one in memory.
pub fn install(host: HostBuilder, settings: Settings) -> HostBuilder {
    let secrets = settings
        .hook
        .iter()
        .fold(StaticSecrets::new(), |secrets, hook| {
            secrets.with(&hook.url, [hook.secret.clone()])
        });
    let page = FrontPage::new(
        "Help desk",
        "Each desk is a durable object that keeps its tickets.",
    )
    .try_curl(
        "Open a ticket",
        r#"--json '{"subject":"The printer is on fire","from":"ada@example.com"}'"#,
        "/desks/support/tickets",
    )
    .try_curl("List the tickets", "", "/desks/support/tickets")
    .link("/desks/support", "The tickets of the desk “support”, live");
    host.object::<Desk>()
        .object::<Visitor>()
        .with(Registry::new().with(WebhookDelivery::new(secrets)))
        .with(settings)
        .router(api::router)
        .front_page(page)
}
