//! Subscriptions of the billing engine, with chains of some years.

use abide::{Env, LocalFuture, server::HostBuilder};
use anyhow::Result;
use billing::{
    Every, Money, Time,
    clock::{AnyPayments, Payments},
    resources::{self, Subscription},
    states::{self, Collected, Created, Draft, Invoice, Invoiced, NewIntent, Plan},
};
use serde::Serialize;

/// When the first period begins: the year 2100, so that no period is due meanwhile.
const BEGINS: Time = Time(4_102_444_800_000);

/// Payments that begin and of which nothing is heard.
struct Unheard;

impl Payments for Unheard {
    fn begin(&self, _: &Env, _: String, _: NewIntent) -> LocalFuture<abide::Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn has_begun(&self, _: &Env, _: String) -> LocalFuture<abide::Result<bool>> {
        Box::pin(async { Ok(true) })
    }
}

pub(crate) fn install(host: HostBuilder) -> HostBuilder {
    resources::install(host).with(AnyPayments::new(Unheard))
}

/// Writes a chain of this many outcomes: months that are billed, entered and paid.
pub(crate) async fn fill(env: &Env, id: &str, outcomes: u32) -> Result<()> {
    let created = Created {
        customer: "cus_1".to_owned(),
        plan: Plan {
            price: "price_1".to_owned(),
            product: "prod_1".to_owned(),
            unit_amount: Money::new(1_000, "EUR".parse()?)?,
            quantity: 1,
            every: Every::MONTH,
        },
        at: BEGINS,
        trial_end: None,
        terms: None,
    };
    let mut live = write(env, id, "create", "incomplete", &created).await?;
    let mut draft: Option<Draft> = None;
    for outcome in 1..outcomes {
        live = match (outcome % 3, &draft) {
            (2, Some(draft)) => write(env, id, "advance", "advanced", &draft.period).await?,
            (0, Some(draft)) => {
                let collected = Collected {
                    invoice: draft.id(),
                    intent: Invoice::intent(&draft.id(), 1),
                    attempt: 1,
                    amount: draft.totals()?.due,
                    reason: None,
                    lines: Vec::new(),
                    restored: None,
                    returned: None,
                    revoked: None,
                };
                write(env, id, "collect", "settled", &collected).await?
            }
            _ => {
                let next = live.next_invoice(id)?;
                draft = Some(next.clone());
                write(env, id, "bill", "invoiced", &Invoiced { draft: next }).await?
            }
        };
    }
    Ok(())
}

async fn write(
    env: &Env,
    id: &str,
    action: &str,
    outcome: &str,
    data: &impl Serialize,
) -> Result<states::Subscription> {
    let subscription = env.object::<Subscription>().get_by_name(id);
    let data = serde_json::to_value(data)?;
    let view = subscription.transition(action.to_owned(), outcome.to_owned(), data);
    Ok(serde_json::from_value(view.await?.data)?)
}

/// The number of a subscription's outcomes. The first call replays the chain.
pub(crate) async fn outcomes(env: &Env, id: &str) -> Result<i64> {
    let subscription = env.object::<Subscription>().get_by_name(id);
    Ok(subscription.get_state().await?.seq)
}
